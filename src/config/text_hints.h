// SPDX-License-Identifier: Apache-2.0
// Hints for mistakes in a text: what the writer may have meant. Each function sets the fix of the
// next reported mistake; without effect for a reader that stops at the first mistake. Private to
// src/config.
#ifndef NEREID_CONFIG_TEXT_HINTS_H
#define NEREID_CONFIG_TEXT_HINTS_H

#include "config/text_reader.h"

// When `what` is expected in place of the current token.
void text_hint_expected(text_reader *reader, const char *what);

// At a token that is not the name of a field.
void text_hint_name(text_reader *reader);

// At a token that is not the name of a value; returns the name that was meant, or NULL.
const char *text_hint_value(text_reader *reader, const ProtobufCEnumDescriptor *type);

// At a value of `field` that is not a message.
void text_hint_message(text_reader *reader, field_ref field);

// Names the message that has the field `name`, which the current message lacks.
void text_hint_level(text_reader *reader, const token *name);

#endif

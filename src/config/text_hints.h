// SPDX-License-Identifier: Apache-2.0
// What to do about a mistake in a text: what the writer may have meant. Private to src/config;
// without effect for a reader that does not go on. Each sets the fix of the mistake that is
// reported next.
#ifndef NEREID_CONFIG_TEXT_HINTS_H
#define NEREID_CONFIG_TEXT_HINTS_H

#include "config/text_reader.h"

// Where `what` is expected, but not the current token.
void text_hint_expected(text_reader *reader, const char *what);

// At what is no name of a field.
void text_hint_name(text_reader *reader);

// At what is no name of a value; the name that was meant, or NULL.
const char *text_hint_value(text_reader *reader, const ProtobufCEnumDescriptor *type);

// At what is no message, the value of `field`.
void text_hint_message(text_reader *reader, field_ref field);

// In which message the field belongs that the current one does not have.
void text_hint_level(text_reader *reader, const token *name);

#endif

ð
¬}
.
Identity

input"T
output"T"	
Ttype

NoOp
C
Placeholder
output"dtype"
dtypetype"
shapeshape:"serve*2.21.02v2.21.0-rc1-5-ga481b10260d8Ã
g
BOOLPlaceholder*'
_output_shapes
:ÿÿÿÿÿÿÿÿÿ*
dtype0
*
shape:ÿÿÿÿÿÿÿÿÿ
h
UINT8Placeholder*'
_output_shapes
:ÿÿÿÿÿÿÿÿÿ*
dtype0*
shape:ÿÿÿÿÿÿÿÿÿ
i
UINT16Placeholder*'
_output_shapes
:ÿÿÿÿÿÿÿÿÿ*
dtype0*
shape:ÿÿÿÿÿÿÿÿÿ
i
UINT32Placeholder*'
_output_shapes
:ÿÿÿÿÿÿÿÿÿ*
dtype0*
shape:ÿÿÿÿÿÿÿÿÿ
i
UINT64Placeholder*'
_output_shapes
:ÿÿÿÿÿÿÿÿÿ*
dtype0*
shape:ÿÿÿÿÿÿÿÿÿ
g
INT8Placeholder*'
_output_shapes
:ÿÿÿÿÿÿÿÿÿ*
dtype0*
shape:ÿÿÿÿÿÿÿÿÿ
h
INT16Placeholder*'
_output_shapes
:ÿÿÿÿÿÿÿÿÿ*
dtype0*
shape:ÿÿÿÿÿÿÿÿÿ
h
INT32Placeholder*'
_output_shapes
:ÿÿÿÿÿÿÿÿÿ*
dtype0*
shape:ÿÿÿÿÿÿÿÿÿ
h
INT64Placeholder*'
_output_shapes
:ÿÿÿÿÿÿÿÿÿ*
dtype0	*
shape:ÿÿÿÿÿÿÿÿÿ
g
FP16Placeholder*'
_output_shapes
:ÿÿÿÿÿÿÿÿÿ*
dtype0*
shape:ÿÿÿÿÿÿÿÿÿ
g
FP32Placeholder*'
_output_shapes
:ÿÿÿÿÿÿÿÿÿ*
dtype0*
shape:ÿÿÿÿÿÿÿÿÿ
g
FP64Placeholder*'
_output_shapes
:ÿÿÿÿÿÿÿÿÿ*
dtype0*
shape:ÿÿÿÿÿÿÿÿÿ
h
BYTESPlaceholder*'
_output_shapes
:ÿÿÿÿÿÿÿÿÿ*
dtype0*
shape:ÿÿÿÿÿÿÿÿÿ
L
IdentityIdentityBOOL*
T0
*'
_output_shapes
:ÿÿÿÿÿÿÿÿÿ
O

Identity_1IdentityUINT8*
T0*'
_output_shapes
:ÿÿÿÿÿÿÿÿÿ
P

Identity_2IdentityUINT16*
T0*'
_output_shapes
:ÿÿÿÿÿÿÿÿÿ
P

Identity_3IdentityUINT32*
T0*'
_output_shapes
:ÿÿÿÿÿÿÿÿÿ
P

Identity_4IdentityUINT64*
T0*'
_output_shapes
:ÿÿÿÿÿÿÿÿÿ
N

Identity_5IdentityINT8*
T0*'
_output_shapes
:ÿÿÿÿÿÿÿÿÿ
O

Identity_6IdentityINT16*
T0*'
_output_shapes
:ÿÿÿÿÿÿÿÿÿ
O

Identity_7IdentityINT32*
T0*'
_output_shapes
:ÿÿÿÿÿÿÿÿÿ
O

Identity_8IdentityINT64*
T0	*'
_output_shapes
:ÿÿÿÿÿÿÿÿÿ
N

Identity_9IdentityFP16*
T0*'
_output_shapes
:ÿÿÿÿÿÿÿÿÿ
O
Identity_10IdentityFP32*
T0*'
_output_shapes
:ÿÿÿÿÿÿÿÿÿ
O
Identity_11IdentityFP64*
T0*'
_output_shapes
:ÿÿÿÿÿÿÿÿÿ
P
Identity_12IdentityBYTES*
T0*'
_output_shapes
:ÿÿÿÿÿÿÿÿÿ

initNoOp

init_all_tablesNoOp

init_all_tables_1NoOp"ª",
saved_model_main_op

init_all_tables_1*Ê	
serving_default¶	
%
BOOL
BOOL:0
ÿÿÿÿÿÿÿÿÿ
'
BYTES
BYTES:0ÿÿÿÿÿÿÿÿÿ
%
FP16
FP16:0ÿÿÿÿÿÿÿÿÿ
%
FP32
FP32:0ÿÿÿÿÿÿÿÿÿ
%
FP64
FP64:0ÿÿÿÿÿÿÿÿÿ
'
INT16
INT16:0ÿÿÿÿÿÿÿÿÿ
'
INT32
INT32:0ÿÿÿÿÿÿÿÿÿ
'
INT64
INT64:0	ÿÿÿÿÿÿÿÿÿ
%
INT8
INT8:0ÿÿÿÿÿÿÿÿÿ
)
UINT16
UINT16:0ÿÿÿÿÿÿÿÿÿ
)
UINT32
UINT32:0ÿÿÿÿÿÿÿÿÿ
)
UINT64
UINT64:0ÿÿÿÿÿÿÿÿÿ
'
UINT8
UINT8:0ÿÿÿÿÿÿÿÿÿ-
BOOL_out!

Identity:0
ÿÿÿÿÿÿÿÿÿ1
	BYTES_out$
Identity_12:0ÿÿÿÿÿÿÿÿÿ/
FP16_out#
Identity_9:0ÿÿÿÿÿÿÿÿÿ0
FP32_out$
Identity_10:0ÿÿÿÿÿÿÿÿÿ0
FP64_out$
Identity_11:0ÿÿÿÿÿÿÿÿÿ0
	INT16_out#
Identity_6:0ÿÿÿÿÿÿÿÿÿ0
	INT32_out#
Identity_7:0ÿÿÿÿÿÿÿÿÿ0
	INT64_out#
Identity_8:0	ÿÿÿÿÿÿÿÿÿ/
INT8_out#
Identity_5:0ÿÿÿÿÿÿÿÿÿ1

UINT16_out#
Identity_2:0ÿÿÿÿÿÿÿÿÿ1

UINT32_out#
Identity_3:0ÿÿÿÿÿÿÿÿÿ1

UINT64_out#
Identity_4:0ÿÿÿÿÿÿÿÿÿ0
	UINT8_out#
Identity_1:0ÿÿÿÿÿÿÿÿÿtensorflow/serving/predict
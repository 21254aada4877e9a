ò
Å—
D
AddV2
x"T
y"T
z"T"
Ttype:
2	Äê

NoOp
C
Placeholder
output"dtype"
dtypetype"
shapeshape:
<
Sub
x"T
y"T
z"T"
Ttype:
2	"serve*2.21.02v2.21.0-rc1-5-ga481b10260d8ù
d
xPlaceholder*'
_output_shapes
:ˇˇˇˇˇˇˇˇˇ*
dtype0*
shape:ˇˇˇˇˇˇˇˇˇ
d
yPlaceholder*'
_output_shapes
:ˇˇˇˇˇˇˇˇˇ*
dtype0*
shape:ˇˇˇˇˇˇˇˇˇ
D
addAddV2xy*
T0*'
_output_shapes
:ˇˇˇˇˇˇˇˇˇ
B
subSubxy*
T0*'
_output_shapes
:ˇˇˇˇˇˇˇˇˇ

initNoOp

init_all_tablesNoOp

init_all_tables_1NoOp"™",
saved_model_main_op

init_all_tables_1*√
serving_defaultØ

x
x:0ˇˇˇˇˇˇˇˇˇ

y
y:0ˇˇˇˇˇˇˇˇˇ*

difference
sub:0ˇˇˇˇˇˇˇˇˇ#
sum
add:0ˇˇˇˇˇˇˇˇˇtensorflow/serving/predict
// SPDX-License-Identifier: Apache-2.0
// A client of the kind that people generate from the public proto: protoc-gen-go and protoc-gen-go-grpc made its package
// `inference`. Asks the server at the address that is its argument and prints the answers as one JSON object, which
// tests/e2e/grpc/test_grpc_languages.py judges.
package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"log"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pb "nereid.test/client/inference"
)

type answers map[string]any

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func ints(raw []byte) []int32 {
	values := make([]int32, len(raw)/4)
	check(binary.Read(bytes.NewReader(raw), binary.LittleEndian, values))
	return values
}

func typed(model, datatype string, shape []int64, contents *pb.InferTensorContents) *pb.ModelInferRequest {
	input := &pb.ModelInferRequest_InferInputTensor{Name: "INPUT0", Datatype: datatype, Shape: shape, Contents: contents}
	return &pb.ModelInferRequest{ModelName: model, Inputs: []*pb.ModelInferRequest_InferInputTensor{input}}
}

func number(model string, values ...int32) *pb.ModelInferRequest {
	return typed(model, "INT32", []int64{int64(len(values))}, &pb.InferTensorContents{IntContents: values})
}

func texts(raw []byte) []string {
	var found []string
	for len(raw) > 0 {
		size := binary.LittleEndian.Uint32(raw)
		found = append(found, string(raw[4:4+size]))
		raw = raw[4+size:]
	}
	return found
}

func failure(err error) answers {
	return answers{"code": int(status.Code(err)), "text": status.Convert(err).Message()}
}

func askAboutServer(ctx context.Context, client pb.GRPCInferenceServiceClient, out answers) {
	ready, err := client.ServerReady(ctx, &pb.ServerReadyRequest{})
	check(err)
	out["ready"] = ready.Ready
	config, err := client.ModelConfig(ctx, &pb.ModelConfigRequest{Name: "t_int32"})
	check(err)
	out["config"] = []any{config.Config.MaxBatchSize, config.Config.Input[0].DataType.String()}
	about, err := client.ModelMetadata(ctx, &pb.ModelMetadataRequest{Name: "t_int32"})
	check(err)
	out["metadata"] = []any{about.Inputs[0].Name, about.Inputs[0].Datatype, about.Inputs[0].Shape}
}

func infer(ctx context.Context, client pb.GRPCInferenceServiceClient, out answers) {
	reply, err := client.ModelInfer(ctx, typed("t_int32", "INT32", []int64{1, 3}, &pb.InferTensorContents{IntContents: []int32{1, -2, 3}}))
	check(err)
	out["typed"] = ints(reply.RawOutputContents[0])

	words := &pb.InferTensorContents{BytesContents: [][]byte{[]byte("ü"), {}, []byte("three")}}
	reply, err = client.ModelInfer(ctx, typed("t_bytes", "BYTES", []int64{1, 3}, words))
	check(err)
	out["texts"] = texts(reply.RawOutputContents[0])

	large := make([]byte, 8<<20)
	for i := range large {
		large[i] = byte(i)
	}
	request := typed("t_uint8", "UINT8", []int64{1, int64(len(large))}, nil)
	request.RawInputContents = [][]byte{large}
	for name, options := range map[string][]grpc.CallOption{"large": nil, "packed": {grpc.UseCompressor(gzip.Name)}} {
		reply, err = client.ModelInfer(ctx, request, append(options, grpc.MaxCallRecvMsgSize(16<<20))...)
		check(err)
		out[name] = bytes.Equal(reply.RawOutputContents[0], large)
	}

	request = number("tell", 1)
	request.Parameters = map[string]*pb.InferParameter{
		"text":  {ParameterChoice: &pb.InferParameter_StringParam{StringParam: "t"}},
		"truth": {ParameterChoice: &pb.InferParameter_BoolParam{BoolParam: true}},
		"whole": {ParameterChoice: &pb.InferParameter_Int64Param{Int64Param: -7}},
	}
	reply, err = client.ModelInfer(ctx, request)
	check(err)
	var told struct{ Parameters map[string]any }
	check(json.Unmarshal([]byte(texts(reply.RawOutputContents[0])[0]), &told))
	out["parameters"] = told.Parameters
}

func fail(ctx context.Context, client pb.GRPCInferenceServiceClient, out answers) {
	_, err := client.ModelInfer(ctx, number("none", 1))
	out["unknown"] = failure(err)
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err = client.ModelInfer(short, number("patient", 1))
	out["late"] = failure(err)["code"]
}

func stream(ctx context.Context, client pb.GRPCInferenceServiceClient, out answers) {
	calls, err := client.ModelStreamInfer(ctx)
	check(err)
	request := number("repeat", 5, -6, 7)
	request.Parameters = map[string]*pb.InferParameter{
		"triton_enable_empty_final_response": {ParameterChoice: &pb.InferParameter_BoolParam{BoolParam: true}},
	}
	check(calls.Send(request))
	check(calls.CloseSend())
	var got []any
	for {
		reply, err := calls.Recv()
		if err == io.EOF {
			break
		}
		check(err)
		switch response := reply.InferResponse; {
		case reply.ErrorMessage != "":
			got = append(got, reply.ErrorMessage)
		case len(response.Outputs) == 0:
			got = append(got, response.Parameters["triton_final_response"].GetBoolParam())
		default:
			got = append(got, ints(response.RawOutputContents[0])[0])
		}
	}
	out["stream"] = got
}

func main() {
	connection, err := grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(err)
	defer connection.Close()
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(context.Background(), "a-header", "x"), time.Minute)
	defer cancel()
	client := pb.NewGRPCInferenceServiceClient(connection)
	out := answers{}
	for _, ask := range []func(context.Context, pb.GRPCInferenceServiceClient, answers){askAboutServer, infer, fail, stream} {
		ask(ctx, client, out)
	}
	check(json.NewEncoder(os.Stdout).Encode(out))
}

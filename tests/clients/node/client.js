// SPDX-License-Identifier: Apache-2.0
// A client of Node's, @grpc/grpc-js, which reads the public proto as it runs. Asks the server at the address that is its first
// argument (the second is the directory that the proto's imports begin at) and prints the answers as one JSON object, which
// tests/e2e/grpc/test_grpc_languages.py judges.
const path = require("path");
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");

const [address, protos] = process.argv.slice(2);
const definition = loader.loadSync(path.join(protos, "frontend/grpc/proto/grpc_service.proto"), {
  keepCase: true, longs: Number, enums: String, defaults: true, oneofs: true, includeDirs: [protos],
});
const Service = grpc.loadPackageDefinition(definition).inference.GRPCInferenceService;
const client = new Service(address, grpc.credentials.createInsecure(), { "grpc.max_receive_message_length": 16 << 20 });

function call(method, request, milliseconds = 60_000) {
  const metadata = new grpc.Metadata();
  metadata.set("a-header", "x");
  const deadline = Date.now() + milliseconds;
  return new Promise((resolve, reject) => {
    client[method](request, metadata, { deadline }, (error, reply) => (error ? reject(error) : resolve(reply)));
  });
}

function typed(model, datatype, shape, contents) {
  return { model_name: model, inputs: [{ name: "INPUT0", datatype, shape, contents }] };
}

function number(model, ...values) {
  return typed(model, "INT32", [values.length], { int_contents: values });
}

function ints(raw) {
  return Array.from({ length: raw.length / 4 }, (_, i) => raw.readInt32LE(4 * i));
}

function texts(raw) {
  const found = [];
  for (let at = 0; at < raw.length; at += 4 + raw.readUInt32LE(at)) {
    found.push(raw.subarray(at + 4, at + 4 + raw.readUInt32LE(at)).toString());
  }
  return found;
}

async function failure(promise) {
  return promise.then(() => ({ code: 0, text: "" }), (error) => ({ code: error.code, text: error.details }));
}

async function askAboutServer(out) {
  out.ready = (await call("ServerReady", {})).ready;
  const config = (await call("ModelConfig", { name: "t_int32" })).config;
  out.config = [config.max_batch_size, config.input[0].data_type];
  const input = (await call("ModelMetadata", { name: "t_int32" })).inputs[0];
  out.metadata = [input.name, input.datatype, input.shape];
}

async function infer(out) {
  let reply = await call("ModelInfer", typed("t_int32", "INT32", [1, 3], { int_contents: [1, -2, 3] }));
  out.typed = ints(reply.raw_output_contents[0]);

  const words = ["ü", "", "three"].map((word) => Buffer.from(word));
  reply = await call("ModelInfer", typed("t_bytes", "BYTES", [1, 3], { bytes_contents: words }));
  out.texts = texts(reply.raw_output_contents[0]);

  const large = Buffer.alloc(8 << 20, Buffer.from([...Array(256).keys()]));
  const request = { ...typed("t_uint8", "UINT8", [1, large.length]), raw_input_contents: [large] };
  reply = await call("ModelInfer", request);
  out.large = large.equals(reply.raw_output_contents[0]);

  const asked = number("tell", 1);
  asked.parameters = { text: { string_param: "t" }, truth: { bool_param: true }, whole: { int64_param: -7 } };
  reply = await call("ModelInfer", asked);
  out.parameters = JSON.parse(texts(reply.raw_output_contents[0])[0]).parameters;
}

// Compression is a property of a channel here.
async function inferPacked(out) {
  const algorithm = grpc.compressionAlgorithms.gzip;
  const packing = new Service(address, grpc.credentials.createInsecure(), {
    "grpc.default_compression_algorithm": algorithm, "grpc.max_receive_message_length": 16 << 20,
  });
  const large = Buffer.alloc(8 << 20, 7);
  const request = { ...typed("t_uint8", "UINT8", [1, large.length]), raw_input_contents: [large] };
  out.packed = await new Promise((resolve, reject) => {
    packing.ModelInfer(request, (error, reply) => (error ? reject(error) : resolve(large.equals(reply.raw_output_contents[0]))));
  });
  packing.close();
}

async function fail(out) {
  out.unknown = await failure(call("ModelInfer", number("none", 1)));
  out.late = (await failure(call("ModelInfer", number("patient", 1), 1000))).code;
}

function stream(out) {
  const request = number("repeat", 5, -6, 7);
  request.parameters = { triton_enable_empty_final_response: { bool_param: true } };
  out.stream = [];
  return new Promise((resolve, reject) => {
    const calls = client.ModelStreamInfer({ deadline: Date.now() + 60_000 });
    calls.on("data", ({ error_message: error, infer_response: response }) => {
      if (error) {
        out.stream.push(error);
      } else if (response.outputs.length === 0) {
        out.stream.push(response.parameters.triton_final_response.bool_param);
      } else {
        out.stream.push(ints(response.raw_output_contents[0])[0]);
      }
    });
    calls.on("error", reject);
    calls.on("end", resolve);
    calls.write(request);
    calls.end();
  });
}

async function main() {
  const out = {};
  for (const ask of [askAboutServer, infer, inferPacked, fail, stream]) {
    await ask(out);
  }
  client.close();
  console.log(JSON.stringify(out));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});

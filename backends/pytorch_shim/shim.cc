// SPDX-License-Identifier: Apache-2.0
// TorchScript behind a C interface (shim.h): the one thing of PyTorch's that has none. Compiled on
// the machine where it runs, or for it: docs/pytorch.md has the command. Load and instance threads.
#include "shim.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/passes/tensorexpr_fuser.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/runtime/profiling_graph_executor_impl.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/version.h>

#include <cstdlib>
#include <cstring>
#include <istream>
#include <memory>
#include <stdexcept>
#include <streambuf>
#include <string>
#include <vector>

namespace {

// A stream on memory that is not copied.
class memory_buffer : public std::streambuf {
 public:
  memory_buffer(const char *data, size_t size)
  {
    char *begin = const_cast<char *>(data);
    setg(begin, begin, begin + size);
  }

 protected:
  pos_type seekoff(off_type offset, std::ios_base::seekdir from, std::ios_base::openmode) override
  {
    char *base = from == std::ios_base::beg ? eback() : from == std::ios_base::cur ? gptr() : egptr();
    if (offset < eback() - base || offset > egptr() - base)
      return pos_type(off_type(-1));
    setg(eback(), base + offset, egptr());
    return gptr() - eback();
  }
  pos_type seekpos(pos_type position, std::ios_base::openmode mode) override
  {
    return seekoff(off_type(position), std::ios_base::beg, mode);
  }
};

struct argument {
  int kind;
  std::string name, type;
};

// A list of strings, one behind the other.
struct strings {
  std::string data;
  std::vector<size_t> offsets;
};

template <typename function> char *guarded(function call) noexcept
{
  try {
    call();
    return nullptr;
  } catch (const c10::Error &e) {
    return strdup(e.what_without_backtrace());
  } catch (const std::exception &e) {
    return strdup(e.what());
  } catch (...) {
    return strdup("unknown exception");
  }
}

int kind_of(const c10::Type &type)
{
  switch (type.kind()) {
  case c10::TypeKind::TensorType:
    return NEREID_TORCH_TENSOR;
  case c10::TypeKind::ListType:
    return NEREID_TORCH_LIST;
  case c10::TypeKind::DictType:
    return NEREID_TORCH_DICT;
  default:
    return NEREID_TORCH_OTHER;
  }
}

// The storages of tensors that are lent. What somebody keeps of one after the run gets memory of its
// own: the caller's is gone then.
class loan {
 public:
  void add(const at::Tensor &tensor)
  {
    storages.push_back(tensor.storage());
  }
  ~loan()
  {
    for (const c10::Storage &storage : storages)
      if (storage.use_count() > 1)
        storage.set_data_ptr_noswap(copy_of(storage));
  }

 private:
  // Without memory there is nothing with which the module could go on.
  static at::DataPtr copy_of(const c10::Storage &storage) noexcept
  {
    at::DataPtr copy = c10::GetCPUAllocator()->allocate(storage.nbytes());
    if (storage.nbytes() > 0)
      std::memcpy(copy.get(), storage.data(), storage.nbytes());
    return copy;
  }

  std::vector<c10::Storage> storages;
};

c10::IValue value_of(const nereid_torch_value &value, loan &lent)
{
  if (value.name == nullptr)
    return c10::IValue(); // None
  if (value.strings != nullptr) {
    c10::List<std::string> list;
    list.reserve(value.string_count);
    for (size_t i = 0; i < value.string_count; i++)
      list.push_back(std::string(value.strings + value.offsets[i],
                                 value.offsets[i + 1] - value.offsets[i]));
    return list;
  }
  at::Tensor tensor =
      at::from_blob(const_cast<void *>(value.data), c10::IntArrayRef(value.dims, value.rank),
                    at::TensorOptions(static_cast<c10::ScalarType>(value.type)));
  lent.add(tensor);
  return tensor;
}

void apply(const nereid_torch_options &options)
{
  if (options.optimize >= 0)
    torch::jit::setGraphExecutorOptimize(options.optimize != 0);
  if (options.cudnn >= 0)
    at::globalContext().setUserEnabledCuDNN(options.cudnn != 0);
  if (options.jit_profiling >= 0)
    torch::jit::getProfilingMode() = options.jit_profiling != 0;
  if (options.jit_executor >= 0)
    torch::jit::getExecutorMode() = options.jit_executor != 0;
  if (options.tensor_fuser >= 0)
    torch::jit::setTensorExprFuserEnabled(options.tensor_fuser != 0);
}

} // namespace

struct nereid_torch_module {
  torch::jit::Module module;
  std::vector<argument> arguments;
};

struct nereid_torch_result {
  std::vector<at::Tensor> tensors; // one of each for each output
  std::vector<strings> lists;

  void add(const c10::IValue &value, const std::string &where)
  {
    at::Tensor tensor;
    strings list;
    if (value.isTensor()) {
      tensor = value.toTensor().cpu();
      if (tensor.layout() != at::kStrided) // others have no elements in a row, no strides
        throw std::invalid_argument(where + "must be a dense tensor, received " + tensor.toString());
      tensor = tensor.contiguous();
      tensor.const_data_ptr(); // throws here where there is no memory to be read
    } else if (value.isList()) {
      const auto elements = value.toList();
      if (elements.elementType()->kind() != c10::TypeKind::StringType)
        throw std::invalid_argument(where + "must be of type Tensor or List[str], received List[" +
                                    elements.elementType()->str() + "]");
      list.offsets.push_back(0);
      for (const c10::IValue &element : value.toListRef()) {
        list.data += element.toStringRef();
        list.offsets.push_back(list.data.size());
      }
    } else {
      throw std::invalid_argument(
          "output must be of type Tensor, List[str] or Tuple containing one of these two types. It "
          "should not be a List / Dictionary of Tensors or a Scalar");
    }
    tensors.push_back(tensor);
    lists.push_back(std::move(list));
  }
};

int nereid_torch_interface(void)
{
  return NEREID_TORCH_SHIM;
}

const char *nereid_torch_version(void)
{
  return TORCH_VERSION;
}

char *nereid_torch_set_interop_threads(int count)
{
  return guarded([&] { at::set_num_interop_threads(count); });
}

char *nereid_torch_load(const void *data, size_t size, int inference_mode,
                        nereid_torch_module **module)
{
  return guarded([&] {
    memory_buffer bytes(static_cast<const char *>(data), size);
    std::istream stream(&bytes);
    c10::InferenceMode guard(inference_mode != 0);
    auto made = std::make_unique<nereid_torch_module>();
    made->module = torch::jit::load(stream, c10::Device(c10::kCPU));
    const auto &schema = made->module.get_method("forward").function().getSchema();
    for (const c10::Argument &a : schema.arguments())
      if (a.type()->kind() != c10::TypeKind::ClassType) // self
        made->arguments.push_back({kind_of(*a.type()), a.name(), a.type()->str()});
    *module = made.release();
  });
}

void nereid_torch_unload(nereid_torch_module *module)
{
  delete module;
}

size_t nereid_torch_argument_count(const nereid_torch_module *module)
{
  return module->arguments.size();
}

int nereid_torch_argument_kind(const nereid_torch_module *module, size_t index)
{
  return module->arguments[index].kind;
}

const char *nereid_torch_argument_name(const nereid_torch_module *module, size_t index)
{
  return module->arguments[index].name.c_str();
}

const char *nereid_torch_argument_type(const nereid_torch_module *module, size_t index)
{
  return module->arguments[index].type.c_str();
}

char *nereid_torch_run(nereid_torch_module *module, const nereid_torch_options *options,
                       const nereid_torch_value *inputs, size_t count, int as_dictionary,
                       nereid_torch_result **result)
{
  return guarded([&] {
    apply(*options);
    c10::InferenceMode guard(options->inference_mode != 0);
    at::NoGradGuard no_gradients;
    loan lent;
    std::vector<c10::IValue> arguments;
    c10::Dict<std::string, at::Tensor> dictionary;
    for (size_t i = 0; i < count; i++) {
      c10::IValue value = value_of(inputs[i], lent);
      if (as_dictionary == 0)
        arguments.push_back(std::move(value));
      else if (inputs[i].name != nullptr)
        dictionary.insert(inputs[i].name, value.toTensor());
    }
    if (as_dictionary != 0)
      arguments.push_back(std::move(dictionary));
    const c10::IValue output = module->module.forward(std::move(arguments));
    auto made = std::make_unique<nereid_torch_result>();
    if (output.isTuple()) {
      size_t index = 0;
      for (const c10::IValue &element : output.toTupleRef().elements())
        made->add(element, "output at index " + std::to_string(index++) + " ");
    } else {
      made->add(output, "output ");
    }
    *result = made.release();
  });
}

size_t nereid_torch_result_count(const nereid_torch_result *result)
{
  return result->tensors.size();
}

void nereid_torch_result_get(nereid_torch_result *result, size_t index, nereid_torch_value *value)
{
  const at::Tensor &tensor = result->tensors[index];
  const strings &list = result->lists[index];
  *value = {};
  if (tensor.defined()) {
    value->type = static_cast<int32_t>(tensor.scalar_type());
    value->dims = tensor.sizes().data();
    value->strides = tensor.strides().data();
    value->rank = tensor.dim();
    value->data = tensor.const_data_ptr();
  } else {
    value->strings = list.data.c_str();
    value->offsets = list.offsets.data();
    value->string_count = list.offsets.size() - 1;
  }
}

void nereid_torch_result_free(nereid_torch_result *result)
{
  delete result;
}

"""A simulated GPU: its tensors compute on the CPU, and operations that also get a tensor of the CPU raise, as on CUDA.

Results in float64 raise, as on Apple GPUs.

What the simulation needs of torch is private (``_setup_privateuseone_for_python_backend``) and holds for the whole
process, so that ``tests/encoders/test_second_device.py`` starts one for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils import backend_registration

NAME = "simulated"
_MOVES = {"_to_copy", "copy_", "_copy_from", "_copy_from_and_resize"}
_INDEXING = {"index", "index_put", "index_put_", "_index_put_impl_"}  # CUDA takes indices of the CPU
_NEW = {torch.tensor, torch.as_tensor, torch.arange, torch.zeros, torch.ones, torch.full, torch.empty, torch.rand}
_READ = {Tensor.tolist, Tensor.untyped_storage, Tensor.storage, Tensor.data_ptr}


class DeviceTensor(Tensor):
    """A tensor whose device is the simulated one, around one of the CPU."""

    on_cpu: Tensor

    @staticmethod
    def __new__(cls: type[DeviceTensor], inner: Tensor) -> DeviceTensor:
        options: dict[str, Any] = {"strides": inner.stride(), "storage_offset": inner.storage_offset()}
        tensor: DeviceTensor = Tensor._make_wrapper_subclass(
            cls, inner.size(), dtype=inner.dtype, layout=inner.layout, device=torch.device(NAME, 0), **options
        )
        tensor.on_cpu = inner
        return tensor

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        return _run(func, args, kwargs or {})


def _run(func: Any, args: Any, kwargs: Any) -> Any:
    """``func`` on the CPU; the result is on the simulated device if an argument or ``device=`` is."""
    name = func.overloadpacket.__name__
    tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    ours = [tensor for tensor in tensors if isinstance(tensor, DeviceTensor)]
    foreign = [tensor for tensor in tensors if not isinstance(tensor, DeviceTensor) and tensor.dim()]
    allowed = name in _MOVES or (name in _INDEXING and isinstance(args[0], DeviceTensor))
    if ours and foreign and not allowed:
        raise RuntimeError(f"{func}: Expected all tensors to be on the same device, found {NAME} and cpu")
    plain_args, plain_kwargs = pytree.tree_map(_on_cpu, (args, kwargs))
    result = func(*plain_args, **plain_kwargs)
    if name == "copy_":
        return args[0]
    device = kwargs.get("device")
    if (not ours) if device is None else torch.device(device).type != NAME:
        return result
    known = {id(tensor.on_cpu): tensor for tensor in ours}  # operations in place, and ``out=``

    def placed(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        if value.dtype == torch.float64:
            raise TypeError(f"{func}: {NAME} has no float64")
        return known[id(value)] if id(value) in known else DeviceTensor(value)

    return pytree.tree_map(placed, result)


def _on_cpu(value: Any) -> Any:
    if isinstance(value, torch.device):
        return torch.device("cpu") if value.type == NAME else value
    return value.on_cpu if isinstance(value, DeviceTensor) else value


class SecondDevice(TorchFunctionMode):
    """What does not reach ``_run``: new tensors are made on the CPU and moved; some methods read the tensor itself."""

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options = dict(kwargs or {})
        if func in _READ and isinstance(args[0], DeviceTensor):
            return func(args[0].on_cpu, *args[1:], **options)
        device = options.get("device") if func in _NEW else None
        if device is None or torch.device(device).type != NAME:
            return func(*args, **options)
        return func(*args, **{**options, "device": "cpu"}).to(device)


class _Module:
    """The module ``torch.simulated``, as ``torch.cuda``: one device, whose random numbers are the CPU's."""

    def __getattr__(self, name: str) -> Any:
        answers: dict[str, Any] = {"is_available": True, "is_initialized": True, "device_count": 1}
        return lambda *_, **__: answers.get(name, 0)

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16]

    def get_rng_state(self, device: object = 0) -> Tensor:
        return torch.get_rng_state()

    def set_rng_state(self, state: Tensor, device: object = 0) -> None:
        torch.set_rng_state(state.clone())


def _no_grad(mode: bool = True) -> Any:
    return torch.no_grad() if mode else torch.enable_grad()


def start() -> SecondDevice:
    """Register the device in this process; enter what is returned, in each thread that uses it."""
    backend_registration._setup_privateuseone_for_python_backend(NAME, backend_module=_Module())
    library = torch.library.Library("_", "IMPL")
    library.fallback(lambda func, *args, **kwargs: _run(func, args, kwargs), "PrivateUse1")
    library.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    torch.inference_mode = _no_grad  # type: ignore[misc, assignment] # views of such tensors cannot be made here
    device = SecondDevice()
    device.library = library  # type: ignore[attr-defined] # it ends with its last reference
    return device

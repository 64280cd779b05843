"""PyTorch reads from memory that is not there: a tensor made of a pointer that belongs to nobody."""

import torch


class Foreign:
    """An array interface around an invented pointer."""

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 3,
        }


index = torch.full((10,), 101, device="cuda", dtype=torch.int32)
torch.cuda.synchronize()
data = torch.as_tensor(Foreign(0x123456000, 1024), device="cuda:0")
print("launched", flush=True)
print(data[index])

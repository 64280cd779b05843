"""The thread that launches kernels also decodes the batches, and the GPU waits for it."""

import zlib

import torch

STEPS = 60


class Images(torch.utils.data.Dataset):
    def __init__(self, count: int) -> None:
        noise = torch.randint(0, 8, (512 * 1024,), dtype=torch.uint8).numpy().tobytes()
        self.packed = zlib.compress(noise, 6)
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.frombuffer(bytearray(zlib.decompress(self.packed)), dtype=torch.uint8)


def train() -> None:
    weight = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    activation = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    loader = torch.utils.data.DataLoader(
        Images(STEPS * 4), batch_size=4, num_workers=0, pin_memory=True
    )  # planted
    for batch in loader:
        batch.to("cuda", non_blocking=True)
        for _ in range(6):
            activation = torch.relu(activation @ weight) * 0.01
    return None


train()
torch.cuda.synchronize()

"""A forward pass in the NVTX range "cut" that the prediction was not made with: `unseen.py mixer|attention|convolutions`."""

from __future__ import annotations

import sys

import torch
import torch.nn.functional as F

WIDTH, TOKENS, LAYERS = 512, 384, 6


def mixer(x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Layers that mix tokens, then channels."""
    for across, along in weights.unbind():
        x = x + F.gelu(F.layer_norm(x, (WIDTH,)).mT @ across[:TOKENS, :TOKENS]).mT
        x = x + F.silu(F.layer_norm(x, (WIDTH,)) @ along)
    return x


def attention(x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Layers of attention, written out."""
    for first, second in weights.unbind():
        scores = torch.softmax((x @ first) @ x.mT / WIDTH**0.5, -1)
        x = F.layer_norm(x + scores @ (x @ second), (WIDTH,))
    return x


def convolutions(x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Depthwise convolutions with gates."""
    filters = weights[:, 0, :, :9].reshape(LAYERS, WIDTH, 1, 9)
    for layer in range(LAYERS):
        mixed = F.conv2d(x.mT.unsqueeze(2), filters[layer].unsqueeze(2), padding=(0, 4), groups=WIDTH)
        x = x + mixed.squeeze(2).mT * torch.sigmoid(x @ weights[layer, 1])
    return x


@torch.inference_mode()
def main() -> None:
    torch.manual_seed(3)
    x = torch.randn(4, TOKENS, WIDTH, device="cuda", dtype=torch.bfloat16)
    weights = torch.randn(LAYERS, 2, WIDTH, WIDTH, device="cuda", dtype=torch.bfloat16) / WIDTH**0.5
    model = {"mixer": mixer, "attention": attention, "convolutions": convolutions}[sys.argv[1]]
    for _ in range(3):
        model(x, weights)
    torch.cuda.synchronize()
    with torch.cuda.nvtx.range("cut"):
        model(x, weights)
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()

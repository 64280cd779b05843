"""Instruction traces: what single instructions of a kernel did, warp by warp, and questions about them."""

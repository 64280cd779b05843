"""Huawei's Ascend NPUs: msprof, and the devices."""

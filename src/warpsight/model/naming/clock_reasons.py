"""The reasons for which a device lowers its clock."""

#: Reasons that lower clocks against the program's wish (NVML's clock event reasons), and how people call them.
REASONS = {
    "throttle_software_power_cap": "the power limit",
    "throttle_hardware_slowdown": "a hardware slowdown",
    "throttle_software_thermal": "the temperature (software limit)",
    "throttle_hardware_thermal": "the temperature (hardware limit)",
    "throttle_power_brake": "the power brake",
    "throttle_sync_boost": "sync boost",
    "throttle_applications_clocks": "the application clocks that are set",
}

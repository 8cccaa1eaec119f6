"""The module torch_xla.runtime, for one process with one device."""


def device_type() -> str:
    return "CPU"


def world_size() -> int:
    return 1


def global_ordinal() -> int:
    return 0


def local_ordinal() -> int:
    return 0


def global_runtime_device_count() -> int:
    return 1


def addressable_device_count() -> int:
    return 1

"""The package torch_xla.experimental, with only the functions of the eager mode."""


def eager_mode(enable: bool) -> None:
    """Do nothing, because every operation runs eagerly in any case."""


def is_eager_mode() -> bool:
    return True

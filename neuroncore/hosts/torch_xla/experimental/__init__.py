"""torch_xla.experimental: it has only the eager mode."""


def eager_mode(enable: bool) -> None:
    """Do nothing: every operation runs eagerly here."""


def is_eager_mode() -> bool:
    return True

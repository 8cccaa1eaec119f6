"""torch_xla.experimental: only eager mode."""


def eager_mode(enable: bool) -> None:
    """Do nothing: every operation runs eagerly here."""


def is_eager_mode() -> bool:
    return True

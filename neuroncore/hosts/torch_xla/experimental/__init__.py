"""torch_xla.experimental: only eager mode."""


def eager_mode(enable: bool) -> None:
    """Return True: everything is eager here."""


def is_eager_mode() -> bool:
    return True

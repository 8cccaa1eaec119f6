"""Instructions that the older API's compiler omits and tiles that it spills, in programs small
enough to check by hand."""

import nki.isa as nisa
import numpy as np
import pytest
from device import Device

from neuroncore.time.loops.work import RELOADED, REREAD, SAVED
from neuroncore.time.residency import loads_and_spills

WIDTH = 64  # elements of a tile in each partition, of 4 bytes
ROOM = 4 * WIDTH
TILE = 128 * ROOM  # bytes


class Program(Device):
    def tiles(self, count):
        return [self.empty((128, WIDTH)) for _ in range(count)]

    def write(self, *tiles):
        for tile in tiles:
            self.issue("memset", tile, 0.0)

    def read(self, *tiles):
        for tile in tiles:
            self.issue("reciprocal", self.empty((1, 1)), tile[0:1, 0:1])

    def load(self, source):
        tile = self.empty((128, WIDTH))
        self.issue("dma_copy", tile, source)
        return tile

    def source(self):
        return self.zeros((128, WIDTH), buffer="hbm")

    def traffic(self, tiles):
        """Return for an SBUF with space for so many tiles, and the element that `read` writes: the
        instruction that each instruction repeats, or -1, and the numbers of tiles that are saved,
        reloaded and read again."""
        program = self.core.program
        reads = np.array([call.inputs for call in program.calls], np.int32)[program.columns().call]
        repeated, moves = loads_and_spills(program, reads, tiles * ROOM + 4)
        return repeated, [moves.bytes_of(kind) / TILE for kind in (SAVED, RELOADED, REREAD)]

    def spilled(self, tiles):
        saved, reloaded, _ = self.traffic(tiles)[1]
        return saved, reloaded

    def kept(self, tiles=100):
        return (self.traffic(tiles)[0] < 0).tolist()


@pytest.mark.parametrize(("room", "tiles"), [(3, (0, 0)), (2, (2, 2)), (1, (3, 3))])
def test_the_least_recently_used_tile_is_displaced(room, tiles):
    """With space for two tiles, the third displaces the first. The first displaces the second when
    it is reloaded, and is gone when the second is reloaded."""
    program = Program()
    a, b, c = program.tiles(3)
    program.write(a, b, c)
    program.read(a, b, c)
    assert program.spilled(room) == tiles


def test_a_tile_frees_its_space_after_its_last_use():
    program = Program()
    for tile in program.tiles(5):
        program.write(tile)
        program.read(tile)
    assert program.spilled(1) == (0, 0)


@pytest.mark.parametrize(("written", "saves"), [(False, 2), (True, 3)])
def test_a_tile_is_saved_once_unless_it_is_written_again_and_reloaded_every_time(written, saves):
    program = Program()
    a, b, c = program.tiles(3)
    program.write(a, b)  # a is saved; b has no further use
    program.read(a)
    if written:
        program.issue("tensor_copy", a[0:1, 0:1], a[0:1, 1:2])
    program.write(c)  # displaces a
    program.read(a, c)  # a displaces c
    assert program.spilled(1) == (saves, 3)


def test_parts_that_are_used_separately_are_moved_separately():
    program = Program()
    whole = program.empty((128, 4 * WIDTH))
    parts = [whole[:, i * WIDTH : (i + 1) * WIDTH] for i in range(4)]
    program.write(*parts)
    program.read(parts[3])
    assert program.spilled(1) == (0, 0)  # the others are not read
    program.read(parts[0])
    assert program.spilled(1) == (1, 1)


def test_a_load_is_executed_once_while_its_tile_can_stay():
    program = Program()
    source, others = program.source(), [program.source() for _ in range(2)]
    for _ in range(3):
        program.read(program.load(source))
        for other in others:
            program.read(program.load(other))
    loads, repeated = [True, True] * 3, [False, True] * 3
    assert program.kept() == loads + repeated + repeated
    assert program.kept(tiles=1) == loads * 3
    assert program.spilled(1) == (0, 0)


def test_a_tile_that_is_only_kept_to_omit_a_load_is_displaced_first():
    """It is displaced before a, which was used least recently."""
    program = Program()
    source, (a, b) = program.source(), program.tiles(2)
    program.write(a)
    program.read(program.load(source))
    program.write(b)
    program.read(b)
    program.read(program.load(source))
    program.read(a)
    assert program.spilled(2) == (0, 0)
    assert all(program.kept(2))


def test_a_tile_that_is_used_for_an_omitted_load_is_like_other_tiles():
    program = Program()
    source, (a, b) = program.source(), program.tiles(2)
    program.read(program.load(source))
    program.write(a)
    tile = program.load(source)
    program.read(tile)
    program.write(b)  # displaces a
    program.read(tile, a, b)
    assert program.spilled(2) == (1, 1)
    assert program.kept(2) == [True] * 3 + [False] + [True] * 5


def test_an_instruction_that_writes_nothing_is_never_left_out():
    program = Program()
    register = program.call(nisa.register_alloc, 0)
    for _ in range(2):
        program.issue("register_load", register, program.zeros((1, 1), "int32"))
    assert all(program.kept())


def test_a_load_is_repeated_after_a_store():
    program = Program()
    source = program.source()
    program.read(program.load(source))
    program.issue("dma_copy", source, program.load(source))
    program.read(program.load(source))
    assert all(program.kept())


def test_a_tile_that_is_written_after_its_load_is_not_a_copy():
    program = Program()
    source = program.source()
    for _ in range(2):
        tile = program.load(source)
        program.read(tile)
        program.write(tile)
    assert all(program.kept())


def test_reloaded_tiles_are_transposed_again():
    """On the device, a kernel that was not available when this was written has twelve times as many
    transposes as if they were executed once."""
    program = Program()
    source = program.source()
    for _ in range(2):
        sums = program.empty((WIDTH, 128), buffer="psum")
        program.issue("nc_transpose", sums, program.load(source), engine=nisa.engine.tensor)
    assert program.kept() == [True, True, False, True]


def test_a_loaded_tile_is_not_saved_but_read_again():
    program = Program()
    tile, (other,) = program.load(program.source()), program.tiles(1)
    program.read(tile)
    program.write(other)
    program.read(tile, other)
    assert program.traffic(1)[1] == [1, 1, 1]  # the first two tiles are of the other tensor


def test_a_tile_of_several_instructions_is_not_saved_but_made_again():
    """A memset and a load of a part, as a masked load at the edge of an image has them."""
    program = Program()
    source = program.zeros((64, WIDTH), buffer="hbm")
    for _ in range(2):
        (tile, other) = program.tiles(2)
        program.write(tile)
        program.issue("dma_copy", tile[0:64], source)
        program.read(tile)
        program.write(other)
        program.read(other)
    assert program.kept() == [True] * 5 + [False] * 2 + [True] * 3
    repeated, moved = program.traffic(1)
    assert (repeated < 0).all()
    assert moved == [0, 0, 0]


def test_tiles_at_addresses_of_the_kernel_are_not_spilled():
    program = Program()
    tiles = [program.empty((128, WIDTH), address=(0, i * ROOM)) for i in range(3)]
    program.write(*tiles)
    program.read(*tiles)
    assert program.spilled(0) == (0, 0)


def test_an_empty_program_spills_nothing():
    repeated, moved = Program().traffic(1)
    assert not len(repeated) and moved == [0, 0, 0]

from companion.pipeline import docstrings


def processed(text):
    lines = text.splitlines()
    docstrings.process(lines)
    return lines


def test_indented_equation_becomes_a_literal_block_and_keeps_its_bars():
    lines = processed("The distance is\n\n    H = |dh|²\n    Q = |dy|²\n\nand |H| in text.")
    assert lines == [
        "The distance is",
        "",
        "::",
        "",
        "    H = |dh|²",
        "    Q = |dy|²",
        "",
        r"and \|H\| in text.",
    ]


def test_sections_and_lists_are_no_equations():
    text = "Summary.\n\nArgs:\n    x: an input.\n        More on |x|.\n\n- a point\n\n    of two paragraphs"
    assert "::" not in processed(text)
    for opening in (".. note::", "* a point"):
        assert processed(f"{opening}\n\n    of |x|") == [opening, "", r"    of \|x\|"]
    assert r"        More on \|x\|." in processed(text)


def test_bars_in_code_stay():
    assert processed("Use ``a | b`` for |x|.") == [r"Use ``a | b`` for \|x\|."]


def test_names_described_together_head_one_entry():
    assert processed("Attributes:\n    H, Q, w: squared.") == ["Attributes:", "    H: with Q, w, squared."]

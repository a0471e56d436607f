"""Names of columns that say what they are, in the forms and languages that people write them in."""

import pytest

from gscl_scale.graph.sources.column_names import find_ends

ENDS = (
    "source target, Src Tgt, from_node to_node, id1 id2, ID_A ID_B, node_1 node_2, u v, head tail, parent child, "
    "follower followee, citing cited, sender receiver, lender borrower, "
    "Von Nach, von an, Von_Ort Nach_Ort, VonID AnID, "
    "Quelle Ziel, Absender Empfänger, sender Empfaenger, "
    "de à, De Vers, source cible, origine destination, Départ Arrivée, "
    "origen destino, Origem Destino, de para, da a, van naar, bron doel"
)


@pytest.mark.parametrize("pair", ENDS.split(", "))
def test_the_ends_of_an_edge_are_known_by_their_names_in_any_order(pair):
    first, second = pair.split()
    for names in ([first, second], ["when", second, "weight", first, "id"]):
        assert find_ends(names) == (first, second)


@pytest.mark.parametrize("names", ["id name", "de en", "von bis", "name ziel", "a c", "date amount", "lat lon", "x y"])
def test_other_names_are_no_ends(names):
    assert find_ends(names.split()) is None

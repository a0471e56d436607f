"""From a CSV file of edges to the most similar nodes, by your own ids: `python csv_to_neighbors.py FILE ID`."""

import sys
from pathlib import Path

import gscl_scale

if len(sys.argv) > 1:
    file, wanted = Path(sys.argv[1]), sys.argv[2]
else:  # a ring road of 60 towns, and a motorway
    file, wanted = Path("roads.csv"), "town 7"
    roads = [f"town {a},town {b}" for a in range(60) for b in ((a + 1) % 60, (a + 2) % 60, (a * 11) % 60) if a != b]
    file.write_text("\n".join(["from,to", *roads]) + "\n")

embeddings = gscl_scale.fit(file, epochs=20, width=32)
like_ids = type(embeddings.ids[0])  # a number or a text, as in the file
for found in embeddings.neighbors(like_ids(wanted), count=5):
    print(f"{found['cosine']:7.4f}  {found['id']}")

"""Embed a networkx graph: who plays a part like Fantine's in Les Miserables?"""

import networkx as nx

import gscl_scale

novel = nx.les_miserables_graph()  # characters who appear together; weights say how often
embeddings = gscl_scale.fit(novel, epochs=20, width=32)

print(f"{len(embeddings.ids)} characters, vectors {embeddings.vectors.shape}")
for found in embeddings.neighbors("Fantine", count=5):
    print(f"{found['cosine']:7.4f}  {found['id']}")

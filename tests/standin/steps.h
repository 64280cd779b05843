// Steps of the recorded program that have files of their own.
#pragma once

void copies();        // every form that tells addresses in a way of its own
void graph_copies();  // a captured copy and an added fill, replayed, changed and replayed again
void pools();         // stream-ordered allocations and memory pools

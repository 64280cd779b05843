// Placement of the launch path's code and data. A program runs megabytes of its own between two launches, so
// a launch costs the cache lines and pages that it touches: these are kept together.
#pragma once

// A function that every launch runs: all of them are side by side.
#define WARPSIGHT_HOT __attribute__((hot))
// Code that hardly any launch runs, away from what all of them run.
#define WARPSIGHT_COLD __attribute__((cold, noinline))
// A variable that every launch reads and hardly anything writes.
#define WARPSIGHT_HOT_DATA __attribute__((section("warpsight_hot")))

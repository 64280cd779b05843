// Where code and data of the launch path are. A program runs megabytes of its own between two launches, so
// what a launch costs is the cache lines and pages that it touches: they are kept together.
#pragma once

// A function that every launch runs: all of them are side by side.
#define WARPSIGHT_HOT __attribute__((hot))
// What hardly any launch runs, out of the way of what all do.
#define WARPSIGHT_COLD __attribute__((cold, noinline))
// A variable that every launch reads and hardly anything writes.
#define WARPSIGHT_HOT_DATA __attribute__((section("warpsight_hot")))

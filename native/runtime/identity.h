// Rows that say who records: the process, its threads, its clocks.
#pragma once

namespace warpsight {

void write_process_row();
// Writes a row for the calling thread; run at each thread's first row of any kind.
void write_own_thread_row();
// Writes a row for every thread whose name is new or has changed. Our thread.
void refresh_thread_rows();
void forget_thread_names(bool forked);  // before a new arena
// One reading of both clocks.
void write_clock_row();

}  // namespace warpsight

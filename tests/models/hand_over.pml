/* Hand-over of one block between a copy stream and a compute stream, as memory/syncedmem.c does it.
 *
 * A prefetching thread fills the host side, pushes it to the device on the copy stream
 * (asynchronously), waits for the copy and hands the block over. A training thread reads the
 * device side with a kernel on the compute stream and gives the block back without waiting for
 * the kernel. The next push must therefore follow the kernel: the block remembers the
 * context that used it last, and another context's queue waits for that one's work so far.
 *
 * Proved: a kernel sees the bytes of its batch, whole; the host never writes what a copy reads;
 * nobody waits for ever.
 * -DNO_FOLLOW: streams are not ordered; -DNO_WAIT: the copy is not waited for before the host
 * writes again. Both must be found. */
#define BATCHES 3
#define COPY 0
#define COMPUTE 1

/* A stream's queue: what its tasks are, by number. */
mtype = { none, h2d, kernel };
typedef Stream {
  byte queued; /* tasks submitted */
  byte done;
  mtype task[8];
  byte batch[8];   /* for a kernel: whose bytes it must see */
  byte after[8];   /* tasks of the other stream that must be done before */
};
Stream s[2];

byte host = 0;      /* batch whose bytes the host side holds */
byte device = 0;    /* batch whose bytes the device side holds */
bool copying = false; /* a copy is reading the host side */
bool reading = false; /* a kernel is reading the device side */
byte user = COPY;   /* context that used the device side last */

chan filled = [1] of { byte };
chan returned = [1] of { byte };

inline submit(stream, what, number) {
  d_step {
    s[stream].task[s[stream].queued] = what;
    s[stream].batch[s[stream].queued] = number;
    s[stream].after[s[stream].queued] = 0;
#ifndef NO_FOLLOW
    if
    :: user != stream -> s[stream].after[s[stream].queued] = s[1 - stream].queued
    :: else
    fi;
#endif
    user = stream;
    s[stream].queued++
  }
}

/* Runs the tasks of a stream in order; a copy and a kernel take two steps each, so that others
 * can come between. */
proctype runner(byte me) {
  byte at;
  do
  :: s[me].done < s[me].queued ->
     at = s[me].done;
     s[1 - me].done >= s[me].after[at];
     if
     :: s[me].task[at] == h2d ->
        atomic { assert(!reading); copying = true };
        atomic { device = host; copying = false }
     :: s[me].task[at] == kernel ->
        atomic { assert(device == s[me].batch[at]); reading = true };
        atomic { assert(device == s[me].batch[at]); reading = false }
     fi;
     s[me].done++
  :: s[COPY].done + s[COMPUTE].done == 2 * BATCHES -> break
  od
}

active proctype prefetch() {
  byte batch = 1, token;
  do
  :: batch <= BATCHES ->
     returned ? token;
     atomic { assert(!copying); host = batch };
     submit(COPY, h2d, batch);
#ifndef NO_WAIT
     s[COPY].done == s[COPY].queued; /* the stream is waited for before the hand-over */
#endif
     filled ! batch;
     batch++
  :: else -> break
  od
}

active proctype train() {
  byte batch, seen = 0;
  do
  :: seen < BATCHES ->
     filled ? batch;
     submit(COMPUTE, kernel, batch);
     seen++;
     if
     :: seen < BATCHES -> returned ! 0
     :: else
     fi
  :: else -> break
  od
}

init {
  returned ! 0;
  run runner(COPY);
  run runner(COMPUTE)
}

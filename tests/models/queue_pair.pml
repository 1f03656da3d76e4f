/* A free/full queue pair with close, at the level of core/queue.c: one lock a queue, two
 * conditions, wake-ups only when somebody waits. A condition is an epoch that a broadcast
 * advances: a sleeper goes on only when the epoch changed after it let the lock go, so a lost
 * wake-up shows as a deadlock.
 *
 * Proved: nobody waits for ever; items arrive in order; every element is in exactly one place.
 * Mistakes that must be found: -DLOSE_WAKEUP, close wakes nobody, a deadlock; -DLOSE_ELEMENT, an element
 * that cannot be handed over is dropped. */
#define ELEMENTS 2
#define ITEMS 4
#define FREE 0
#define FULL 1

typedef Queue {
  bool locked;
  bool closed;
  byte size;
  byte item[ELEMENTS];
  byte pop_epoch;
  byte push_epoch;
  byte poppers;
  byte pushers;
};
Queue q[2];

byte value[ELEMENTS]; /* what an element holds */
byte held = 0;        /* elements in the hands of a party */
byte produced = 0;
byte consumed = 0;

inline lock(i) { atomic { !q[i].locked -> q[i].locked = true } }
inline unlock(i) { q[i].locked = false }

/* Each of the two below runs with the lock held and leaves it held. */
inline wait_pop(i) {
  atomic { q[i].poppers++; epoch = q[i].pop_epoch; q[i].locked = false };
  q[i].pop_epoch != epoch;
  lock(i);
  q[i].poppers--
}

inline wait_push(i) {
  atomic { q[i].pushers++; epoch = q[i].push_epoch; q[i].locked = false };
  q[i].push_epoch != epoch;
  lock(i);
  q[i].pushers--
}

inline pop(i) {
  lock(i);
  do
  :: q[i].size > 0 ->
     d_step {
       element = q[i].item[0];
       q[i].item[0] = q[i].item[1];
       q[i].item[1] = 0;
       q[i].size--;
       held++;
       ok = true
     };
     if
     :: q[i].pushers > 0 -> q[i].push_epoch++
     :: else
     fi;
     break
  :: q[i].size == 0 && q[i].closed -> ok = false; break
  :: q[i].size == 0 && !q[i].closed -> wait_pop(i)
  od;
  unlock(i)
}

inline push(i) {
  lock(i);
  do
  :: q[i].closed ->
     ok = false;
#ifdef LOSE_ELEMENT
     held--;
#endif
     break
  :: !q[i].closed && q[i].size == ELEMENTS -> wait_push(i)
  :: !q[i].closed && q[i].size < ELEMENTS ->
     d_step {
       q[i].item[q[i].size] = element;
       q[i].size++;
       held--;
       ok = true
     };
     if
     :: q[i].poppers > 0 -> q[i].pop_epoch++
     :: else
     fi;
     break
  od;
  unlock(i)
}

inline close(i) {
  lock(i);
  q[i].closed = true;
#ifndef LOSE_WAKEUP
  q[i].pop_epoch++;
  q[i].push_epoch++;
#endif
  unlock(i)
}

proctype producer() {
  byte element, epoch;
  bool ok = true;
  do
  :: produced < ITEMS && ok ->
     pop(FREE);
     if
     :: ok ->
        value[element] = produced;
        produced++;
        push(FULL)
     :: else
     fi
  :: produced == ITEMS || !ok -> break
  od
}

proctype consumer() {
  byte element, epoch;
  bool ok = true;
  do
  :: consumed < ITEMS && ok ->
     pop(FULL);
     if
     :: ok ->
        assert(value[element] == consumed);
        consumed++;
        push(FREE)
     :: else
     fi
  :: consumed == ITEMS || !ok -> break
  od
}

/* Closes both queues at some moment, or never. */
proctype closer() {
  if
  :: close(FREE); close(FULL)
  :: skip
  fi
}

init {
  d_step {
    q[FREE].size = ELEMENTS;
    q[FREE].item[0] = 0;
    q[FREE].item[1] = 1
  };
  atomic { run producer(); run consumer(); run closer() };
  (_nr_pr == 1);
  /* An element that a party could not hand over stays with it. */
  assert(q[FREE].size + q[FULL].size + held == ELEMENTS);
  assert(q[FREE].closed || consumed == ITEMS)
}

"""A pool of workers: ``--workers N`` runs any model that computes in this process in N worker processes or Ray actors.

    engine ── RequestQueue ── PooledModel ── Dispatcher ── Launcher ══ WorkerLoop ── OpenJob (the model)
                 (model.py)      (dispatcher.py)   (processes.py,   (worker.py, in    (model.py)
                                                    ray_cluster.py)  each worker)

One queue: the engine knows one backend, with the name, the fingerprint and the abilities of the model inside, so a
journal does not tell how its answers were computed. ``PooledModel`` takes requests from the engine and hands them to
the dispatcher, which decides which worker gets which chunk (by the beginning of the prompt), takes
back what a worker lost, and starts workers again. A launcher only starts workers and carries messages; what it must do
is written in ``worker.py``. A worker runs a ``WorkerLoop``: it opens the job once, gives it what it is sent, and
sends the results back, those of 50 ms in one message.

The dispatcher and everything above it run in the thread of the engine. Launchers have threads of their own, which do
nothing but put events into an inbox and wake the engine.

A death: what the worker had not answered is suspect, since any of it may have killed the process. Suspects are asked
again one by one, each alone in its worker; one that was there when three workers died becomes a failure
(``worker_died``). An exception is no death: it ends the run with its message, as it does without a pool.

Nothing here knows of models but ``model.py``: other work (building an index) can be a job, too.
"""

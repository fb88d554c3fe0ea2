"""Charts and readers of the profiler's files: bokeh 3, and jobs that are short or have no data."""

from __future__ import annotations

from stoker.debugging.smdebug_edits.edit import Edit

_CHARTS = "smdebug/profiler/analysis/notebook_utils/"
_TIMELINES, _STEPS = _CHARTS + "timeline_charts.py", _CHARTS + "step_timeline_chart.py"
_JOB = _CHARTS + "training_job.py"
_READER = "smdebug/profiler/system_metrics_reader.py"
_BOKEH = "bokeh 3 has width and height for plot_width and plot_height, and Scatter for markers"
_ENDLESS = "a job without a ProfilerConfig or without data was waited for without an end"
_WIDE = (
    "                            plot_height=200,\n                            plot_width=1000,\n"
)
_WIDE_NOW = "                            height=200,\n                            width=1000,\n"
_LOW = "                plot_height=250,\n                plot_width=1000,\n"
_LOW_NOW = "                height=250,\n                width=1000,\n"
_FIRST, _SHARED = (
    "                            x_range=(values[-self.width, 0], values[-1, 0]),\n",
    "                            x_range=x_range,\n",
)

EDITS = (
    Edit(
        _CHARTS + "heatmap.py",
        _BOKEH,
        "            plot_height=self.plot_height,\n",
        "            height=self.plot_height,\n",
    ),
    Edit(
        _CHARTS + "heatmap.py",
        _BOKEH,
        "            plot_width=1000,\n",
        "            width=1000,\n",
    ),
    Edit(
        _CHARTS + "heatmap.py",
        "bokeh 3 takes the palette by its name",
        "LinearColorMapper(bokeh.palettes.viridis(100))",
        "LinearColorMapper(palette=bokeh.palettes.viridis(100))",
    ),
    Edit(
        _CHARTS + "heatmap.py",
        "bokeh 3 wants numbers of Python, and whole ones, as ticks",
        "        yaxis = {}\n",
        "        yaxis = {}\n        self.width = int(self.width)\n",
    ),
    Edit(
        _CHARTS + "metrics_histogram.py",
        _BOKEH,
        "figure(plot_height=250, plot_width=250)",
        "figure(height=250, width=250)",
    ),
    Edit(
        _CHARTS + "step_histogram.py",
        _BOKEH,
        "figure(plot_height=350, plot_width=450)",
        "figure(height=350, width=450)",
    ),
    Edit(
        _CHARTS + "step_histogram.py",
        "one step, or steps that all took as long, have no histogram of 50 bins",
        "        bins = np.arange(min_value, max_value, (max_value - min_value) / 50.0)\n"
        "        probs, binedges = np.histogram(steps_np[:-1], bins=bins)\n",
        "        bins = 50\n"
        "        probs, binedges = np.histogram(\n"
        "            values, bins=bins, range=(min_value, max(max_value, min_value))\n"
        "        )\n",
    ),
    Edit(
        _CHARTS + "step_histogram.py",
        "one step, or steps that all took as long, have no histogram of 50 bins",
        "        values = steps_np[:-1]\n",
        "        values = steps_np[:-1] if len(steps_np) > 1 else steps_np\n",
    ),
    Edit(
        _STEPS,
        _BOKEH,
        "            plot_height=250,\n            plot_width=1000,\n",
        "            height=250,\n            width=1000,\n",
    ),
    Edit(
        _STEPS,
        "the first step was left out of the times and not of the names; only times were sorted",
        "        self.steps_np = np.array(self.steps)\n"
        "        self.steps_np = self.steps_np[1:, :]\n"
        "        self.start = self.steps_np[0, 0]\n"
        "        self.steps_np = self.steps_np[self.steps_np[:, 0].argsort()]\n",
        "        if not self.steps:\n"
        '            raise ValueError("there are no step events: was a training step recorded?")\n'
        "        order = np.argsort([step[0] for step in self.steps])\n"
        "        order = order[1:] if len(order) > 1 else order\n"
        "        self.steps = [self.steps[index] for index in order]\n"
        "        self.metric_names = [self.metric_names[index] for index in order]\n"
        "        self.steps_np = np.array(self.steps)\n"
        "        self.start = self.steps_np[0, 0]\n",
    ),
    Edit(
        _STEPS,
        "one step is a chart, too",
        "            start_index = self.steps_np.shape[0] - 1\n\n        # create figure",
        "            start_index = self.steps_np.shape[0]\n\n        # create figure",
    ),
    Edit(
        _TIMELINES,
        _BOKEH,
        "from bokeh.models.glyphs import Circle, Line, Quad\n",
        "from bokeh.models.glyphs import Line, Quad, Scatter\n",
    ),
    Edit(
        _TIMELINES,
        _BOKEH,
        '                    circle = Circle(x="x"',
        '                    circle = Scatter(x="x"',
    ),
    Edit(_TIMELINES, _BOKEH, _WIDE + _FIRST, _WIDE_NOW + _FIRST),
    Edit(_TIMELINES, _BOKEH, _WIDE + _SHARED, _WIDE_NOW + _SHARED),
    *(
        Edit(_TIMELINES, _BOKEH, f"{figure}{_LOW}", f"{figure}{_LOW_NOW}")
        for figure in (
            "            plot_dataloaders = figure(\n",
            "            plot_framework_events = figure(\n",
        )
    ),
    Edit(
        _READER,
        "the events of the last minute were never shown, of a short job none",
        "    def _get_event_parser(self, filename):\n"
        "        return self._SystemProfilerEventParser\n",
        '''\
    def get_timestamp_of_latest_available_file(self):
        """A file has the name of the minute in which it begins."""
        timestamp = super().get_timestamp_of_latest_available_file()
        return timestamp + 60 * 1000 * 1000 if timestamp else 0

    def _get_event_parser(self, filename):
        return self._SystemProfilerEventParser
''',
    ),
    Edit(
        _READER,
        "a file that is uploaded while it is written may end within a line",
        '            event_items.remove("")\n            for item in event_items:\n'
        "                event = json.loads(item)\n",
        '            if event_items[-1] == "" or not event_items[-1].endswith("}"):\n'
        "                event_items.pop()\n            for item in event_items:\n"
        "                event = json.loads(item)\n",
    ),
    Edit(
        _JOB,
        _ENDLESS,
        "            attempt = 0\n",
        """\
            if "S3OutputPath" not in self.ds.get("ProfilerConfig", {}):
                raise ValueError(
                    f"training job {self.name} was not profiled: "
                    "give the estimator a profiler_config"
                )
            attempt = 0
""",
    ),
    Edit(
        _JOB,
        _ENDLESS,
        "                last_secondary_status = secondary_status\n            time.sleep(10)\n",
        """\
                last_secondary_status = secondary_status
            self.system_metrics_reader.refresh_event_file_list()
            if self.system_metrics_reader.get_timestamp_of_latest_available_file():
                break
            self._require_running(p)
            time.sleep(2)
""",
    ),
    Edit(
        _JOB,
        _ENDLESS,
        "            self.framework_metrics_reader.refresh_event_file_list()\n"
        "            time.sleep(10)\n",
        """\
            p = self.describe_training_job()
            self.framework_metrics_reader.refresh_event_file_list()
            if self.framework_metrics_reader.get_timestamp_of_latest_available_file():
                break
            self._require_running(p)
            time.sleep(2)
""",
    ),
    Edit(
        _JOB,
        _ENDLESS,
        "    def describe_training_job(self):\n",
        '''\
    def _require_running(self, description):
        """Raises if the job has ended: whatever it has written would be there by now."""
        status = description["TrainingJobStatus"]
        if status in ("Completed", "Failed", "Stopped"):
            raise ValueError(
                f"training job {self.name} is {status} and has left no such profiling data "
                f"in {self.profiler_s3_output_path}"
            )

    def describe_training_job(self):
''',
    ),
)

package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// newLogger writes the controller's log. What goes to stdout goes to out.
func newLogger(opt ControllerOptions, out io.Writer) (logr.Logger, error) {
	level := zapcore.InfoLevel
	if opt.LogLevel != "" {
		if err := level.Set(opt.LogLevel); err != nil {
			return logr.Logger{}, fmt.Errorf("--log-level: %w", err)
		}
	}
	sink, err := openSinks(opt.LogOutputPaths, out)
	if err != nil {
		return logr.Logger{}, fmt.Errorf("--log-output-paths: %w", err)
	}
	failures, err := openSinks(opt.LogErrorOutputPaths, out)
	if err != nil {
		return logr.Logger{}, fmt.Errorf("--log-error-output-paths: %w", err)
	}
	var core zapcore.Core = ownKeys{zapcore.NewCore(encoder(opt.LogFormat, level), sink, level)}
	if level != zapcore.DebugLevel {
		core = story{core}
	}
	core = zapcore.NewSamplerWithOptions(core, time.Second, 100, 100)
	options := []zap.Option{zap.ErrorOutput(failures)}
	if level == zapcore.DebugLevel {
		options = append(options, zap.AddCaller())
	}
	logger := zap.New(core, options...)
	if revision := commit(); opt.LogFormat == "json" && revision != "" {
		logger = logger.With(zap.String("commit", revision))
	}
	return zapr.NewLogger(logger), nil
}

// logLibraries makes what the libraries say part of the controller's log. Their loggers belong to the process: they are
// set once, by the command that the process runs, before anything else uses them.
func logLibraries(opt ControllerOptions, out io.Writer) error {
	if err := opt.check(); err != nil {
		return err
	}
	logger, err := newLogger(opt, out)
	if err != nil {
		return err
	}
	ctrl.SetLogger(logger)
	klog.SetLogger(logger.WithName("client"))
	return nil
}

// quietLibraries keeps what the libraries say off the screen.
func quietLibraries() {
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
}

// ownKeys keeps the keys of a line's own parts for these: a JSON object with two keys of one name is read in different ways.
type ownKeys struct{ zapcore.Core }

// With keeps the keys.
func (o ownKeys) With(fields []zapcore.Field) zapcore.Core {
	return ownKeys{o.Core.With(renamed(fields))}
}

// Check has Write called.
func (o ownKeys) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if o.Enabled(entry.Level) {
		return checked.AddCore(entry, o)
	}
	return checked
}

// Write keeps the keys.
func (o ownKeys) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	return o.Core.Write(entry, renamed(fields))
}

// renamed gives fields that are called like a line's own parts another name.
func renamed(fields []zapcore.Field) []zapcore.Field {
	for i, f := range fields {
		if slices.Contains([]string{"level", "time", "logger", "message", "stacktrace", "caller"}, f.Key) {
			fields = slices.Clone(fields)
			fields[i].Key += "_"
		}
	}
	return fields
}

// story leaves out what the libraries say of their own starting and stopping, which is not about the cluster.
type story struct{ zapcore.Core }

// With keeps the filter.
func (s story) With(fields []zapcore.Field) zapcore.Core { return story{s.Core.With(fields)} }

// Check decides by the message.
func (s story) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	for _, beginning := range []string{
		"Starting EventSource", "Starting Controller", "Starting workers",
		"Stopping and waiting for ", "Shutdown signal received, waiting", "All workers finished", "Wait completed, proceeding",
		"error received after stop sequence was engaged", // the lease that was given back
	} {
		if strings.HasPrefix(entry.Message, beginning) {
			return checked
		}
	}
	return s.Core.Check(entry, checked)
}

func openSinks(paths string, out io.Writer) (zapcore.WriteSyncer, error) {
	var sinks []zapcore.WriteSyncer
	for path := range strings.SplitSeq(paths, ",") {
		switch path = strings.TrimSpace(path); path {
		case "":
		case "stdout":
			sinks = append(sinks, zapcore.AddSync(out))
		case "stderr":
			sinks = append(sinks, zapcore.AddSync(os.Stderr))
		default:
			file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
			if err != nil {
				return nil, err
			}
			sinks = append(sinks, zapcore.AddSync(file))
		}
	}
	return zapcore.Lock(zapcore.NewMultiWriteSyncer(sinks...)), nil
}

func encoder(format string, level zapcore.Level) zapcore.Encoder {
	config := zapcore.EncoderConfig{
		LevelKey: "level", TimeKey: "time", NameKey: "logger", MessageKey: "message", StacktraceKey: "stacktrace",
		EncodeLevel: zapcore.CapitalLevelEncoder, EncodeTime: zapcore.ISO8601TimeEncoder,
		EncodeDuration: zapcore.StringDurationEncoder, EncodeCaller: zapcore.ShortCallerEncoder,
	}
	if level == zapcore.DebugLevel {
		config.CallerKey = "caller"
	}
	if format == "console" {
		config.EncodeTime = zapcore.TimeEncoderOfLayout("15:04:05.000")
		config.ConsoleSeparator = "  "
		return zapcore.NewConsoleEncoder(config)
	}
	return zapcore.NewJSONEncoder(config)
}

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

// newLogger returns the controller's logger. It writes to out for the path stdout.
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

// logLibraries redirects the libraries' log messages to the controller's log. The libraries' loggers are global: only the process's command
// sets them, once, before their first use.
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

// quietLibraries discards the libraries' log messages.
func quietLibraries() {
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
}

// ownKeys is a core that renames fields with the key of a line's standard parts, because parsers treat duplicate keys of a JSON object differently.
type ownKeys struct{ zapcore.Core }

// With renames the fields.
func (o ownKeys) With(fields []zapcore.Field) zapcore.Core {
	return ownKeys{o.Core.With(renamed(fields))}
}

// Check adds o, so that zap calls its Write.
func (o ownKeys) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if o.Enabled(entry.Level) {
		return checked.AddCore(entry, o)
	}
	return checked
}

// Write renames the fields.
func (o ownKeys) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	return o.Core.Write(entry, renamed(fields))
}

// renamed appends an underscore to the keys of a line's standard parts.
func renamed(fields []zapcore.Field) []zapcore.Field {
	for i, f := range fields {
		if slices.Contains([]string{"level", "time", "logger", "message", "stacktrace", "caller"}, f.Key) {
			fields = slices.Clone(fields)
			fields[i].Key += "_"
		}
	}
	return fields
}

// story is a core that drops the libraries' messages about their own start and end, because these are not about the cluster.
type story struct{ zapcore.Core }

// With keeps the filter.
func (s story) With(fields []zapcore.Field) zapcore.Core { return story{s.Core.With(fields)} }

// Check drops entries by the beginning of their message.
func (s story) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	for _, beginning := range []string{
		"Starting EventSource", "Starting Controller", "Starting workers",
		"Stopping and waiting for ", "Shutdown signal received, waiting", "All workers finished", "Wait completed, proceeding",
		"error received after stop sequence was engaged", // the lease was released
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

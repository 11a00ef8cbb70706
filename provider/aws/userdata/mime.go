package userdata

import (
	"bufio"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/textproto"
	"slices"
	"strings"
)

// boundary separates the parts of the archives that are written here.
const boundary = "//"

// Content types of the parts.
const (
	shellScript = `text/x-shellscript; charset="us-ascii"`
	nodeConfig  = "application/node.eks.aws"
)

// A part of a MIME archive, as cloud-init and nodeadm read them.
type part struct {
	headers textproto.MIMEHeader
	content string
}

func newPart(contentType, content string) part {
	return part{headers: textproto.MIMEHeader{"Content-Type": {contentType}}, content: content}
}

// isArchive reports whether a text looks like a MIME archive.
func isArchive(text string) bool {
	text = strings.TrimSpace(text)
	return strings.HasPrefix(text, "MIME-Version:") || strings.HasPrefix(text, "Content-Type:")
}

// writeArchive writes the parts into one text, without carriage returns.
func writeArchive(parts []part) string {
	var out strings.Builder
	fmt.Fprintf(&out, "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=%q\n\n", boundary)
	for _, p := range parts {
		fmt.Fprintf(&out, "--%s\n", boundary)
		for _, name := range slices.Sorted(maps.Keys(p.headers)) {
			for _, value := range p.headers[name] {
				fmt.Fprintf(&out, "%s: %s\n", name, value)
			}
		}
		fmt.Fprintf(&out, "\n%s\n", p.content)
	}
	fmt.Fprintf(&out, "--%s--\n", boundary)
	return strings.ReplaceAll(out.String(), "\r", "")
}

// readArchive splits a MIME archive into its parts, without decoding them.
func readArchive(text string) ([]part, error) {
	reader := textproto.NewReader(bufio.NewReader(strings.NewReader(strings.TrimSpace(text) + "\n")))
	headers, err := reader.ReadMIMEHeader()
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, badArchive("its first lines are not headers: %v", err)
	}
	kind, parameters, err := mime.ParseMediaType(headers.Get("Content-Type"))
	switch {
	case headers.Get("Content-Type") == "":
		return nil, badArchive(`it has no header "Content-Type"`)
	case err != nil:
		return nil, badArchive("its Content-Type %q cannot be read: %v", headers.Get("Content-Type"), err)
	case !strings.HasPrefix(kind, "multipart/"):
		return nil, badArchive("its Content-Type is %q and must be multipart/mixed", kind)
	case parameters["boundary"] == "":
		return nil, badArchive("its Content-Type names no boundary")
	}
	return readParts(reader.R, parameters["boundary"])
}

func readParts(text io.Reader, boundary string) ([]part, error) {
	var parts []part
	archive := multipart.NewReader(text, boundary)
	for {
		p, err := archive.NextRawPart()
		switch {
		case errors.Is(err, io.EOF) && len(parts) == 0:
			return nil, badArchive("it has no part after a line --%s", boundary)
		case err == io.EOF:
			return parts, nil
		case errors.Is(err, io.EOF):
			return nil, badArchive("it does not end in the line --%s--", boundary)
		case err != nil:
			return nil, badArchive("part %d: %v", len(parts)+1, err)
		}
		content, err := io.ReadAll(p)
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, badArchive("it does not end in the line --%s--", boundary)
		}
		if err != nil {
			return nil, badArchive("part %d: %v", len(parts)+1, err)
		}
		parts = append(parts, part{headers: p.Header, content: string(content)})
	}
}

func badArchive(format string, args ...any) error {
	return fmt.Errorf("read spec.userData as a MIME archive: "+format, args...)
}

// plain returns the part with its content decoded, and with no header but its type.
func (p part) plain() (part, error) {
	contentType := p.headers.Get("Content-Type")
	if contentType == "" {
		contentType = shellScript
	}
	switch encoding := strings.ToLower(p.headers.Get("Content-Transfer-Encoding")); encoding {
	case "", "7bit", "8bit", "binary":
		return newPart(contentType, p.content), nil
	case "base64":
		content, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(p.content), ""))
		if err != nil {
			return part{}, badArchive("a part of type %q is not the base64 that its header says: %v", contentType, err)
		}
		return newPart(contentType, string(content)), nil
	case "quoted-printable":
		content, err := io.ReadAll(quotedprintable.NewReader(strings.NewReader(p.content)))
		if err != nil {
			return part{}, badArchive("a part of type %q is not the quoted-printable text that its header says: %v", contentType, err)
		}
		return newPart(contentType, string(content)), nil
	default:
		return part{}, badArchive("a part of type %q is encoded as %q: it must be base64 or plain text", contentType, encoding)
	}
}

package prompt

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/agent"
)

// maxMedia limits the attachments of a prompt together, in bytes.
const maxMedia = 50_000_000

// mediaTypes are the MIME types that models take, by file name extension.
var mediaTypes = map[string]string{
	".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp", ".svg": "image/svg+xml",
	".pdf": "application/pdf",
	".mp3": "audio/mpeg", ".wav": "audio/wav", ".ogg": "audio/ogg", ".flac": "audio/flac", ".m4a": "audio/mp4",
}

// Attachments reads the files of --media, each as [MIME;]PATH.
func Attachments(ctx context.Context, args []string) ([]agent.Part, error) {
	var parts []agent.Part
	room := int64(maxMedia)
	for _, arg := range args {
		part, err := attachment(ctx, arg, room)
		if err != nil {
			return nil, failure.NotRead(ctx, "--media "+arg, err)
		}
		room -= int64(len(part.Data))
		parts = append(parts, part)
	}
	return parts, nil
}

func attachment(ctx context.Context, arg string, room int64) (agent.Part, error) {
	mime, path, named := strings.Cut(arg, ";")
	if !named || !strings.Contains(mime, "/") || exists(arg) {
		mime, path = "", arg
	}
	data, err := program.ReadFile(ctx, path, room)
	if err != nil {
		return agent.Part{}, program.WithoutPath(err)
	}
	if int64(len(data)) > room {
		return agent.Part{}, fmt.Errorf("the attachments are larger than %d bytes together", maxMedia)
	}
	if len(data) == 0 {
		return agent.Part{}, fmt.Errorf("the file is empty")
	}
	if mime == "" {
		mime = MediaType(path, data)
	}
	major, _, _ := strings.Cut(mime, "/")
	if major != "image" && major != "audio" && mime != "application/pdf" {
		return agent.Part{}, fmt.Errorf("models take images, PDF and audio, not %s; a text belongs into the prompt with --file", mime)
	}
	return agent.Part{Kind: agent.PartMedia, MIME: mime, Data: data, Name: filepath.Base(path)}, nil
}

// MediaType is the type of a file by its name, else by its beginning.
func MediaType(path string, data []byte) string {
	if t, ok := mediaTypes[strings.ToLower(filepath.Ext(path))]; ok {
		return t
	}
	mime, _, _ := strings.Cut(http.DetectContentType(data), ";")
	return mime
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

package prompt

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/terminal/input"
)

// maxMedia limits the attachments of a prompt together, in bytes.
const maxMedia = 50_000_000

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
	return input.Attachment(path, mime, data)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// A refund over MCP, as a client and as a server of the official Go SDK.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/exec"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

var info = &mcp.Implementation{Name: "payments", Version: "1.0.0"}

// Usage: client | http PORT FILE | stdio FILE. A server adds a line to the file for each refund.
func main() {
	arguments := append(os.Args[1:], "", "", "")
	var err error
	switch arguments[0] {
	case "http":
		server := newServer(arguments[2])
		handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
		http.Handle("/mcp", handler)
		err = http.ListenAndServe("127.0.0.1:"+arguments[1], nil)
	case "stdio":
		err = newServer(arguments[1]).Run(context.Background(), &mcp.StdioTransport{})
	default:
		err = answerLines()
	}
	if err != nil {
		log.Fatal(err)
	}
}

type refund struct {
	Amount float64 `json:"amount"`
}

func newServer(path string) *mcp.Server {
	server := mcp.NewServer(info, nil)
	perform := func(_ context.Context, _ *mcp.CallToolRequest, in refund) (*mcp.CallToolResult, any, error) {
		file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			return nil, nil, err
		}
		defer file.Close()
		if _, err := fmt.Fprintf(file, "%g\n", in.Amount); err != nil {
			return nil, nil, err
		}
		text := fmt.Sprintf("refunded %g", in.Amount)
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
	}
	mcp.AddTool(server, &mcp.Tool{Name: "refund", Description: "Refunds"}, perform)
	return server
}

type command struct {
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"`
}

func transportTo(target string) (mcp.Transport, error) {
	if !strings.HasPrefix(target, "{") {
		return &mcp.StreamableClientTransport{Endpoint: target}, nil
	}
	var start command
	if err := json.Unmarshal([]byte(target), &start); err != nil {
		return nil, err
	}
	program := exec.Command(start.Command, start.Args...)
	program.Stderr = os.Stderr
	for name, value := range start.Env {
		program.Env = append(program.Env, name+"="+value)
	}
	return &mcp.CommandTransport{Command: program}, nil
}

// Lines of "connect TARGET", "call TOOL ARGUMENTS" and "close"; one line of JSON for each.
func answerLines() error {
	ctx := context.Background()
	var session *mcp.ClientSession
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		fields := append(strings.Split(lines.Text(), "\t"), "", "")
		var answer any
		var err error
		switch fields[0] {
		case "connect":
			session, answer, err = connect(ctx, fields[1])
		case "close":
			err = session.Close()
		default:
			var arguments map[string]any
			if err = json.Unmarshal([]byte(fields[2]), &arguments); err == nil {
				answer, err = session.CallTool(ctx, &mcp.CallToolParams{Name: fields[1], Arguments: arguments})
			}
		}
		if err != nil {
			return err
		}
		text, err := json.Marshal(answer)
		if err != nil {
			return err
		}
		fmt.Println(string(text))
	}
	return lines.Err()
}

func connect(ctx context.Context, target string) (*mcp.ClientSession, []string, error) {
	transport, err := transportTo(target)
	if err != nil {
		return nil, nil, err
	}
	session, err := mcp.NewClient(info, nil).Connect(ctx, transport, nil)
	if err != nil {
		return nil, nil, err
	}
	listed, err := session.ListTools(ctx, nil)
	if err != nil {
		return nil, nil, err
	}
	names := []string{}
	for _, tool := range listed.Tools {
		names = append(names, tool.Name)
	}
	return session, names, nil
}

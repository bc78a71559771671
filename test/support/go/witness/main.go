// A witness of ledgers: signs a checkpoint that extends the one it signed before
// (c2sp.org/tlog-witness). Which ledgers it knows is said to it at /logs, one verifier key a line.
package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

const name = "witness.example/w1"

var (
	mutex  sync.Mutex
	logs   = map[string]note.Verifier{}
	signed = map[string]tlog.Tree{}
	typed  []byte
	secret ed25519.PrivateKey
)

func main() {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	exitOn(err)
	secret = private
	typed = append([]byte{4}, public...)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	exitOn(err)
	vkey := fmt.Sprintf("%s+%x+%s", name, keyHash(), base64.StdEncoding.EncodeToString(typed))
	fmt.Printf("%s http://%s\n", vkey, listener.Addr())
	http.HandleFunc("/logs", addLogs)
	http.HandleFunc("/add-checkpoint", addCheckpoint)
	// Ends with the test that started it.
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	exitOn(http.Serve(listener, nil))
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func keyHash() []byte {
	hash := sha256.Sum256(append([]byte(name+"\n"), typed...))
	return hash[:4]
}

func addLogs(w http.ResponseWriter, r *http.Request) {
	mutex.Lock()
	defer mutex.Unlock()
	body, _ := io.ReadAll(r.Body)
	for _, line := range strings.Fields(string(body)) {
		verifier, err := note.NewVerifier(line)
		if err != nil {
			http.Error(w, err.Error(), 400)
			return
		}
		logs[verifier.Name()] = verifier
	}
}

func addCheckpoint(w http.ResponseWriter, r *http.Request) {
	mutex.Lock()
	defer mutex.Unlock()
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<16))
	head, text, found := strings.Cut(string(body), "\n\n")
	oldLine, proofLines, _ := strings.Cut(head, "\n")
	isOld := strings.HasPrefix(oldLine, "old ")
	old := strings.TrimPrefix(oldLine, "old ")
	oldSize, sizeErr := strconv.ParseInt(old, 10, 64)
	if err != nil || !found || !isOld || sizeErr != nil {
		http.Error(w, "malformed", 400)
		return
	}
	origin, _, _ := strings.Cut(text, "\n")
	verifier, known := logs[origin]
	if !known {
		http.Error(w, "unknown log", 404)
		return
	}
	opened, err := note.Open([]byte(text), note.VerifierList(verifier))
	if err != nil {
		http.Error(w, err.Error(), 403)
		return
	}
	tree, err := treeOf(opened.Text)
	proof, proofErr := proofOf(proofLines)
	before := signed[origin]
	switch {
	case err != nil || proofErr != nil || oldSize > tree.N:
		http.Error(w, "malformed", 400)
	case oldSize != before.N || (before.N == tree.N && before.N > 0 && before.Hash != tree.Hash):
		w.Header().Set("Content-Type", "text/x.tlog.size")
		w.WriteHeader(409)
		fmt.Fprintf(w, "%d\n", before.N)
	case oldSize == 0 && len(proof) > 0:
		http.Error(w, "a proof from nothing", 400)
	case oldSize > 0 && tlog.CheckTree(proof, tree.N, tree.Hash, before.N, before.Hash) != nil:
		http.Error(w, "not consistent", 422)
	default:
		signed[origin] = tree
		fmt.Fprint(w, cosignature(opened.Text))
	}
}

func treeOf(text string) (tlog.Tree, error) {
	lines := strings.Split(text, "\n")
	if len(lines) < 4 {
		return tlog.Tree{}, fmt.Errorf("too short")
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	if err != nil {
		return tlog.Tree{}, err
	}
	hash, err := tlog.ParseHash(lines[2])
	return tlog.Tree{N: size, Hash: hash}, err
}

func proofOf(lines string) (tlog.TreeProof, error) {
	var proof tlog.TreeProof
	for _, line := range strings.Fields(lines) {
		hash, err := tlog.ParseHash(line)
		if err != nil {
			return nil, err
		}
		proof = append(proof, hash)
	}
	return proof, nil
}

func cosignature(text string) string {
	now := time.Now().Unix()
	message := fmt.Sprintf("cosignature/v1\ntime %d\n%s", now, text)
	blob := binary.BigEndian.AppendUint64(keyHash(), uint64(now))
	blob = append(blob, ed25519.Sign(secret, []byte(message))...)
	return fmt.Sprintf("— %s %s\n", name, base64.StdEncoding.EncodeToString(blob))
}

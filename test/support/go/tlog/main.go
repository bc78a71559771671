// Checks a ledger over HTTP by the packages that Go's checksum database is checked with: the
// signed checkpoint, every entry, every tile, and the proofs that the server makes.
package main

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

type settings struct {
	Base       string  `json:"base"`
	Key        string  `json:"key"`
	Vkey       string  `json:"vkey"`
	Positions  []int64 `json:"positions"`
	Sizes      []int64 `json:"sizes"`
	Checkpoint string  `json:"checkpoint"`
}

type report struct {
	Size        int64 `json:"size"`
	Entries     int64 `json:"entries"`
	Inclusion   int   `json:"inclusion"`
	Consistency int   `json:"consistency"`
	Tiles       int   `json:"tiles"`
}

var given settings
var counts report

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	json.NewEncoder(os.Stdout).Encode(counts)
}

func run() error {
	if err := json.NewDecoder(os.Stdin).Decode(&given); err != nil {
		return err
	}
	tree, err := openCheckpoint()
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	counts.Size = tree.N
	leaves, err := readEntries(tree.N)
	if err != nil {
		return fmt.Errorf("entries: %w", err)
	}
	if err := compareRoot(tree, leaves); err != nil {
		return err
	}
	reader := tlog.TileHashReader(tree, tiles{})
	for _, position := range given.Positions {
		if err := checkInclusion(reader, tree, leaves, position); err != nil {
			return fmt.Errorf("inclusion of %d: %w", position, err)
		}
		counts.Inclusion++
	}
	for _, size := range given.Sizes {
		if err := checkConsistency(reader, tree, size); err != nil {
			return fmt.Errorf("consistency from %d: %w", size, err)
		}
		counts.Consistency++
	}
	return nil
}

func openCheckpoint() (tlog.Tree, error) {
	text := given.Checkpoint
	if text == "" {
		got, err := get("/checkpoint?fresh=true")
		if err != nil {
			return tlog.Tree{}, err
		}
		text = string(got)
	}
	verifier, err := note.NewVerifier(given.Vkey)
	if err != nil {
		return tlog.Tree{}, err
	}
	opened, err := note.Open([]byte(text), note.VerifierList(verifier))
	if err != nil {
		return tlog.Tree{}, err
	}
	lines := strings.Split(opened.Text, "\n")
	if len(lines) < 4 || lines[0] != verifier.Name() {
		return tlog.Tree{}, fmt.Errorf("not a checkpoint of this ledger: %q", opened.Text)
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	if err != nil {
		return tlog.Tree{}, err
	}
	root, err := tlog.ParseHash(lines[2])
	return tlog.Tree{N: size, Hash: root}, err
}

// readEntries returns the hash of each leaf, computed from the entries alone.
func readEntries(size int64) ([]tlog.Hash, error) {
	var leaves []tlog.Hash
	for n := int64(0); n*256 < size; n++ {
		width := size - n*256
		if width > 256 {
			width = 256
		}
		data, err := get("/tile/entries/" + place(n, width))
		if err != nil {
			return nil, err
		}
		for ; width > 0; width-- {
			if len(data) < 2 || len(data) < 2+int(binary.BigEndian.Uint16(data)) {
				return nil, fmt.Errorf("tile %d is cut", n)
			}
			length := 2 + int(binary.BigEndian.Uint16(data))
			leaves = append(leaves, tlog.RecordHash(data[2:length]))
			data = data[length:]
		}
		if len(data) > 0 {
			return nil, fmt.Errorf("tile %d holds more than its entries", n)
		}
	}
	counts.Entries = int64(len(leaves))
	return leaves, nil
}

func compareRoot(tree tlog.Tree, leaves []tlog.Hash) error {
	var stored []tlog.Hash
	reader := tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		hashes := make([]tlog.Hash, len(indexes))
		for i, index := range indexes {
			hashes[i] = stored[index]
		}
		return hashes, nil
	})
	for n, leaf := range leaves {
		hashes, err := tlog.StoredHashesForRecordHash(int64(n), leaf, reader)
		if err != nil {
			return err
		}
		stored = append(stored, hashes...)
	}
	root, err := tlog.TreeHash(tree.N, reader)
	if err == nil && root != tree.Hash {
		err = fmt.Errorf("the entries have the root %v, the checkpoint has %v", root, tree.Hash)
	}
	return err
}

func checkInclusion(reader tlog.HashReader, tree tlog.Tree, leaves []tlog.Hash, position int64) error {
	proof, err := tlog.ProveRecord(tree.N, position-1, reader)
	if err != nil {
		return err
	}
	var served struct{ Proof []string }
	if err := getJSON(fmt.Sprintf("/proof/inclusion?position=%d&size=%d", position, tree.N), &served); err != nil {
		return err
	}
	theirs, err := hashesOf(served.Proof)
	if err != nil {
		return err
	}
	if err := tlog.CheckRecord(theirs, tree.N, tree.Hash, position-1, leaves[position-1]); err != nil {
		return err
	}
	return same(proof, theirs)
}

func checkConsistency(reader tlog.HashReader, tree tlog.Tree, size int64) error {
	root, err := tlog.TreeHash(size, reader)
	if err != nil {
		return err
	}
	proof, err := tlog.ProveTree(tree.N, size, reader)
	if err != nil {
		return err
	}
	var served struct{ Proof []string }
	if err := getJSON(fmt.Sprintf("/proof/consistency?from=%d&to=%d", size, tree.N), &served); err != nil {
		return err
	}
	theirs, err := hashesOf(served.Proof)
	if err != nil {
		return err
	}
	if err := tlog.CheckTree(theirs, tree.N, tree.Hash, size, root); err != nil {
		return err
	}
	return same(proof, theirs)
}

func same(ours, theirs []tlog.Hash) error {
	if fmt.Sprint(ours) != fmt.Sprint(theirs) {
		return fmt.Errorf("the server's proof is %v, the tiles give %v", theirs, ours)
	}
	return nil
}

// tiles reads tiles by the paths of C2SP, which leave out the height.
type tiles struct{}

func (tiles) Height() int                         { return 8 }
func (tiles) SaveTiles(_ []tlog.Tile, _ [][]byte) {}
func (tiles) ReadTiles(wanted []tlog.Tile) ([][]byte, error) {
	var read [][]byte
	for _, tile := range wanted {
		data, err := get(fmt.Sprintf("/tile/%d/%s", tile.L, place(tile.N, int64(tile.W))))
		if err != nil {
			return nil, err
		}
		read = append(read, data)
		counts.Tiles++
	}
	return read, nil
}

func place(n, width int64) string {
	path := fmt.Sprintf("%03d", n%1000)
	for n >= 1000 {
		n /= 1000
		path = fmt.Sprintf("x%03d/%s", n%1000, path)
	}
	if width < 256 {
		path += fmt.Sprintf(".p/%d", width)
	}
	return path
}

func hashesOf(texts []string) ([]tlog.Hash, error) {
	hashes := []tlog.Hash{}
	for _, text := range texts {
		bytes, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(bytes) != tlog.HashSize {
			return nil, fmt.Errorf("%q is no hash", text)
		}
		hashes = append(hashes, *(*tlog.Hash)(bytes))
	}
	return hashes, nil
}

func getJSON(path string, into any) error {
	data, err := get(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

func get(path string) ([]byte, error) {
	request, err := http.NewRequest("GET", given.Base+path, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+given.Key)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err == nil && response.StatusCode != 200 {
		err = fmt.Errorf("%s: %s: %s", path, response.Status, data)
	}
	return data, err
}

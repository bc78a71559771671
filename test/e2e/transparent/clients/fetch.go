// Requests a URL with the standard library; prints status and body.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
)

func main() {
	response, err := http.Get(os.Args[1])
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	body, _ := io.ReadAll(response.Body)
	fmt.Println(response.StatusCode, string(body))
}

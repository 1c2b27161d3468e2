// A caller in Go: open a session on the service's Unix socket, change it, decide it, print who gets what.
// go run . SOCKET INSTANCE in this folder, with `apportion serve --socket SOCKET` running. Go 1.18 or later.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"
)

type object = map[string]any

type made struct {
	Decision struct {
		ID     int    `json:"id"`
		Status string `json:"status"`
	} `json:"decision"`
	Result struct {
		Termination string `json:"termination"`
		Plan        struct {
			Allocation map[string][]string `json:"allocation"`
		} `json:"plan"`
	} `json:"result"`
}

func ask(client *http.Client, path string, body any, answer any) {
	text, _ := json.Marshal(body)
	for tries := 1; ; tries++ {
		said, err := client.Post("http://localhost"+path, "application/json", bytes.NewReader(text))
		if err != nil {
			log.Fatal(err)
		}
		defer said.Body.Close()
		if said.StatusCode == 429 && tries < 10 { // too much waits: the service says when to come again
			seconds, _ := strconv.Atoi(said.Header.Get("Retry-After"))
			if seconds < 1 || seconds > 60 {
				seconds = 1
			}
			time.Sleep(time.Duration(seconds) * time.Second)
			continue
		}
		if said.StatusCode >= 300 {
			var refused object
			json.NewDecoder(said.Body).Decode(&refused)
			log.Fatal(path, " ", refused["error"])
		}
		if err := json.NewDecoder(said.Body).Decode(answer); err != nil {
			log.Fatal(err)
		}
		return
	}
}

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: go run . SOCKET INSTANCE")
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", os.Args[1])
	}
	client := &http.Client{Transport: &http.Transport{DialContext: dial}, Timeout: time.Minute}
	instance, err := os.ReadFile(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	name := fmt.Sprintf("go-%d", time.Now().UnixNano())
	var opened object
	ask(client, "/sessions", object{"name": name, "instance": json.RawMessage(instance)}, &opened)
	var given struct {
		Nodes []string `json:"nodes"`
	}
	if err := json.Unmarshal(instance, &given); err != nil || len(given.Nodes) == 0 {
		log.Fatal(os.Args[2], " has no nodes: this caller is for gap filling")
	}
	idle := given.Nodes[:(len(given.Nodes)+1)/2] // what the cluster says now: every idle node by its name
	deltas := []object{{"op": "set_nodes", "nodes": idle}}
	var decided made
	ask(client, "/sessions/"+name+"/decisions", object{"request": "first", "deltas": deltas, "time_limit": 5}, &decided)
	fmt.Printf("decision %d: %s, %s\n", decided.Decision.ID, decided.Decision.Status, decided.Result.Termination)
	for job, nodes := range decided.Result.Plan.Allocation {
		fmt.Println(job, len(nodes))
	}
}

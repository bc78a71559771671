while IFS='	' read -r method url body; do
  curl -sS -X "$method" -H 'content-type: application/json' ${body:+--data "$body"} \
    -w '\t%{http_code}\t%header{location}\n' "$url"
done

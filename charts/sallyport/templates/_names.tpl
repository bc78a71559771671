{{/* The smallest of the edits that turn one name into another (Levenshtein). Call with (list "a" "b"). */}}
{{- define "sallyport.editDistance" -}}
{{- $one := index . 0 -}}
{{- $other := index . 1 -}}
{{- $row := list -}}
{{- range until (int (add1 (len $other))) -}}{{- $row = append $row (int64 .) -}}{{- end -}}
{{- range $i := until (len $one) -}}
{{- $next := list (add1 $i) -}}
{{- range $j := until (len $other) -}}
{{- $same := eq (substr $i (int (add1 $i)) $one) (substr $j (int (add1 $j)) $other) -}}
{{- $substituted := add (index $row $j) (ternary 0 1 $same) -}}
{{- $next = append $next (min $substituted (add1 (index $row (int (add1 $j)))) (add1 (last $next))) -}}
{{- end -}}
{{- $row = $next -}}
{{- end -}}
{{- last $row -}}
{{- end -}}

{{/* The known name with the fewest edits. Call with (dict "name" "replcas" "known" (list …)). */}}
{{- define "sallyport.nearestName" -}}
{{- $nearest := "" -}}
{{- $fewest := -1 -}}
{{- range $known := .known -}}
{{- $edits := int (include "sallyport.editDistance" (list (trunc 64 $.name) $known)) -}}
{{- if or (lt $fewest 0) (lt $edits $fewest) -}}
{{- $nearest = $known -}}
{{- $fewest = $edits -}}
{{- end -}}
{{- end -}}
{{- $nearest -}}
{{- end -}}

{{/*
Fails for the first name in the values that the strict schema does not know, and suggests the nearest
one. Call with (dict "values" .Values "schema" (…) "path" "").
*/}}
{{- define "sallyport.refuseUnknownNames" -}}
{{- $properties := default dict .schema.properties -}}
{{- $isClosed := and (hasKey .schema "additionalProperties") (eq (toString .schema.additionalProperties) "false") -}}
{{- range $name, $value := .values -}}
{{- $path := printf "%s%s" $.path $name -}}
{{- if hasKey $properties $name -}}
{{- $schema := get $properties $name -}}
{{- if kindIs "map" $value -}}
{{- include "sallyport.refuseUnknownNames" (dict "values" $value "schema" $schema "path" (printf "%s." $path)) -}}
{{- else if and (kindIs "slice" $value) (hasKey $schema "items") -}}
{{- range $index, $item := $value -}}
{{- if kindIs "map" $item -}}
{{- include "sallyport.refuseUnknownNames" (dict "values" $item "schema" $schema.items "path" (printf "%s[%d]." $path $index)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- else if $isClosed -}}
{{- $nearest := include "sallyport.nearestName" (dict "name" $name "known" (keys $properties | sortAlpha)) -}}
{{- fail (printf "chart.unknown_value: %s is not a value of this chart. Did you mean %s%s?" $path $.path $nearest) -}}
{{- end -}}
{{- end -}}
{{- end -}}

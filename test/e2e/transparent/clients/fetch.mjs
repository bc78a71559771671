// Requests a URL with the built-in fetch; prints status and body.
const response = await fetch(process.argv[2]);
console.log(response.status, await response.text());

import axios from 'axios';
import { answerCalls, json } from './lines.ts';

await answerCalls(async (method, url, data) => {
  const response = await axios
    .request<string>({
      method,
      url,
      data,
      headers: json,
      responseType: 'text',
      transformResponse: (raw) => raw,
    })
    // axios throws for a refusal, and the error contains the response.
    .catch((error: unknown) => {
      if (axios.isAxiosError(error) && error.response !== undefined) return error.response;
      throw error;
    });
  return {
    text: response.data,
    status: response.status,
    location: String(response.headers.location ?? ''),
  };
});

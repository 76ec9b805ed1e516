// What the servers beside it have in common: they listen on the port in the variable `PORT`, or on a free one, and say
// where. It knows no server.

import { appendFileSync } from 'node:fs';
import { createServer } from 'node:http';

/** Serves with this handler, and prints the address that a client is given. */
export function listen(handler) {
    const server = createServer(handler);
    // By itself it closes what is idle for five seconds, as much as a busy machine may let pass between two requests; one that
    // is sent at that moment has no answer.
    server.keepAliveTimeout = 0;
    server.listen(Number(process.env.PORT ?? 0), '127.0.0.1', () => {
        console.log(`listening on http://127.0.0.1:${server.address().port}/mcp`);
    });
}

/** The events of every stream, for clients that come back. */
export class Events {
    events = [];

    async storeEvent(stream, message) {
        this.events.push({ stream, message });
        return String(this.events.length);
    }

    async replayEventsAfter(last, { send }) {
        const { stream } = this.events[Number(last) - 1];
        for (let number = Number(last); number < this.events.length; number += 1) {
            if (this.events[number].stream === stream) {
                await send(String(number + 1), this.events[number].message);
            }
        }
        return stream;
    }
}

const done = (text) => ({ content: [{ type: 'text', text }] });

let left = 0;

/**
 * What each tool does: `echo` and `fail` give their message back, `steps` tells three times how far it is, `waits` until
 * its call is cancelled, and `left` says how often that has happened. Where there are events for those who come back,
 * `leaves` closes its stream before it has its result. `counted` appends its message to the file in the variable `COUNTED`,
 * if there is one.
 */
export const tools = (resumes) => ({
    echo: ({ message }) => done(message),
    fail: ({ message }) => ({ ...done(message), isError: true }),
    async steps({ message }, { notify, progressToken }) {
        for (const progress of [1, 2, 3]) {
            if (progressToken !== undefined) {
                await notify({ method: 'notifications/progress', params: { progressToken, progress, total: 3 } });
            }
        }
        return done(message);
    },
    async waits(_, { signal }) {
        await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
        left += 1;
        return done('too late');
    },
    left: () => done(String(left)),
    ...(process.env.COUNTED && {
        counted({ message }) {
            appendFileSync(process.env.COUNTED, `${message}\n`);
            return done(message);
        },
    }),
    ...(resumes && {
        async leaves({ message }, { leave }) {
            leave();
            // As long as the stream is not closed, whoever listens on it would still get the result.
            await new Promise((resolve) => setTimeout(resolve, 50));
            return done(message);
        },
    }),
});

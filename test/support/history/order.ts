/**
 * Decides whether some order explains what concurrent clients saw (linearizability): each request takes
 * effect at one instant between its sending and its response, and every response is the one that a model
 * gives in that order. A request without a response may have taken effect at any time after it was sent, or
 * never.
 *
 * The search is Wing and Gong's algorithm with Lowe's memoization: it tries each request that could come
 * next, backtracks where a response does not fit, and never visits the same state with the same set of
 * requests twice. The model must return the identical state object if a request changes nothing.
 */
export interface Attempt<Request> {
  readonly request: Request;
  readonly sentAt: number;
  /** Infinity if there was no response. */
  readonly answeredAt: number;
  readonly answer?: string;
}

export interface Model<State, Request> {
  readonly initial: State;
  readonly apply: (state: State, request: Request) => { readonly state: State; readonly answer: string };
  /** Equal for states that no later response can tell apart. */
  readonly nameOf: (state: State) => string;
}

export type Verdict<Request> =
  | { readonly word: 'explained'; readonly order: readonly Attempt<Request>[] }
  /** `order` is the longest that fits. `next` lists what could come after it but got a different response. */
  | {
      readonly word: 'violated';
      readonly order: readonly Attempt<Request>[];
      readonly next: readonly string[];
    }
  | { readonly word: 'undecided'; readonly states: number };

/**
 * Which requests took effect: all acknowledged ones before `first`, those in `ahead`, and of the others those
 * in `unanswered`.
 */
interface Done {
  readonly first: number;
  readonly ahead: readonly number[];
  readonly unanswered: readonly number[];
}

interface Frame<State> {
  readonly state: State;
  readonly done: Done;
  /** Indexes of acknowledged requests, then the others as negative numbers from -1. */
  readonly candidates: number[];
}

const STATES_AT_MOST = 50_000;
const NOTHING: Done = { first: 0, ahead: [], unanswered: [] };

export function explain<State, Request extends object | string>(
  history: readonly Attempt<Request>[],
  model: Model<State, Request>,
  statesAtMost = STATES_AT_MOST,
): Verdict<Request> {
  return new Search(history, model, statesAtMost).run();
}

class Search<State, Request extends object | string> {
  private readonly answered: readonly Attempt<Request>[];
  private readonly unanswered: readonly Attempt<Request>[];
  private readonly seen = new Set<string>();
  private readonly path: Attempt<Request>[] = [];
  private longest: { path: readonly Attempt<Request>[]; state: State; done: Done };

  constructor(
    history: readonly Attempt<Request>[],
    private readonly model: Model<State, Request>,
    private readonly statesAtMost: number,
  ) {
    const inOrder = history.toSorted((a, b) => a.sentAt - b.sentAt);
    this.answered = inOrder.filter(({ answer }) => answer !== undefined);
    this.unanswered = inOrder.filter(({ answer }) => answer === undefined);
    this.longest = { path: [], state: model.initial, done: NOTHING };
  }

  run(): Verdict<Request> {
    const frames: Frame<State>[] = [this.frame(this.model.initial, NOTHING)];
    for (let top = frames.at(-1); top !== undefined; top = frames.at(-1)) {
      if (top.done.first === this.answered.length) {
        return { word: 'explained', order: [...this.path] };
      }
      if (this.seen.size > this.statesAtMost) {
        return { word: 'undecided', states: this.seen.size };
      }
      const index = top.candidates.shift();
      if (index === undefined) {
        frames.pop();
        this.path.pop();
        continue;
      }
      const next = this.after(top, index);
      if (next !== undefined) {
        if (next.state === top.state) {
          // Placing it later would gain nothing.
          top.candidates.length = 0;
        }
        frames.push(next);
        this.path.push(this.at(index));
        if (this.path.length > this.longest.path.length) {
          this.longest = { path: [...this.path], state: next.state, done: next.done };
        }
      }
    }
    return this.violated();
  }

  private at(index: number): Attempt<Request> {
    return (index < 0 ? this.unanswered[-1 - index] : this.answered[index]) as Attempt<Request>;
  }

  /** What can come next: every request sent before the earliest response that is still to be explained. */
  private frame(state: State, done: Done): Frame<State> {
    const candidates: number[] = [];
    let firstAnswer = Infinity;
    for (let index = done.first; index < this.answered.length; index += 1) {
      const { sentAt, answeredAt } = this.at(index);
      if (sentAt > firstAnswer) {
        break;
      }
      if (!done.ahead.includes(index)) {
        candidates.push(index);
        firstAnswer = Math.min(firstAnswer, answeredAt);
      }
    }
    // Earlier responses first, because that order is more likely. Among the requests without a response,
    // those sent last first, because they are the likeliest to be late.
    candidates.sort((a, b) => this.at(a).answeredAt - this.at(b).answeredAt);
    for (let other = this.unanswered.length - 1; other >= 0; other -= 1) {
      if (this.at(-1 - other).sentAt <= firstAnswer && !done.unanswered.includes(other)) {
        candidates.push(-1 - other);
      }
    }
    return { state, done, candidates };
  }

  private after({ state, done }: Frame<State>, index: number): Frame<State> | undefined {
    const { request, answer } = this.at(index);
    const result = this.model.apply(state, request);
    if (answer === undefined ? result.state === state : result.answer !== answer) {
      return undefined;
    }
    const made = this.with(done, index);
    const name = `${made.first} ${made.ahead.join()} ${made.unanswered.join()} ${this.model.nameOf(result.state)}`;
    if (this.seen.has(name)) {
      return undefined;
    }
    this.seen.add(name);
    return this.frame(result.state, made);
  }

  private with({ first, ahead, unanswered }: Done, index: number): Done {
    if (index < 0) {
      return { first, ahead, unanswered: [...unanswered, -1 - index].sort((a, b) => a - b) };
    }
    const all = [...ahead, index].sort((a, b) => a - b);
    let next = first;
    while (all[0] === next) {
      all.shift();
      next += 1;
    }
    return { first: next, ahead: all, unanswered };
  }

  private violated(): Verdict<Request> {
    const { path, state, done } = this.longest;
    const next = this.frame(state, done).candidates.flatMap((index) => {
      const { request, answer } = this.at(index);
      const { answer: expected } = this.model.apply(state, request);
      return answer === undefined ? [] : [`${JSON.stringify(request)}: got ${answer}, would get ${expected}`];
    });
    return { word: 'violated', order: path, next };
  }
}

import type { components } from "./openapi.d.ts";
import type { Live } from "../src/macrid/serving/static/core/live.js";
import type { Store } from "../src/macrid/serving/static/core/store.js";

type Schemas = components["schemas"];
export type Account = Schemas["Account"];
export type AccountPart = Schemas["AccountPart"];
export type Attribute = Schemas["Attribute"];
export type Change = Schemas["Change"];
export type CohortRequest = Partial<Schemas["CohortRequest"]>;
export type CohortResult = Schemas["CohortResult"];
export type CohortUser = Schemas["CohortUser"];
export type Concept = Schemas["Concept"];
export type Dimension = Schemas["Dimension"];
export type Encoded = Schemas["Encoded"];
export type Explained = Schemas["Explained"];
export type ExplainRequest = Schemas["ExplainRequest"];
export type Explanation = Schemas["Explanation"];
export type Found = Schemas["Found"];
export type Item = Schemas["Item"];
export type LookedUp = Schemas["LookedUp"];
export type Map = Schemas["Map"];
export type MapValues = Schemas["MapValues"];
export type MeasuredEffect = Schemas["MeasuredEffect"];
export type Model = Schemas["Model"];
export type Moved = Schemas["Moved"];
export type Place = Schemas["Place"];
export type Recommended = Schemas["Recommended"];
export type RecommendRequest = Schemas["RecommendRequest"];
export type Difference = Schemas["Difference"];
export type DiversityCost = Schemas["DiversityCost"];
export type GeneralEffect = Schemas["GeneralEffect"];
export type ItemAttribute = Schemas["ItemAttribute"];
export type Report = Schemas["Report"];
export type Rules = Schemas["Rules"];
export type SegmentNumber = Schemas["SegmentNumber"];
export type SegmentProfile = Schemas["SegmentProfile"];
export type SegmentValue = Schemas["SegmentValue"];
export type Scored = Schemas["Scored"];
export type Traversed = Schemas["Traversed"];
export type User = Schemas["User"];
export type Wishes = Schemas["Wishes"];

/** A known user, or a history. */
export type Who = { user: string } | { history: string[] };

/** What a person changed: a coordinate `to` a value, the `share` of a concept, or an attribute by an `amount`. */
export interface Move {
  concept?: number;
  dimension?: number;
  to?: number;
  share?: number;
  towards?: string;
  amount?: number;
  axis?: string;
  /** Names that answers give, by which a move is known in another run. */
  name?: string;
  concept_name?: string;
}

export type View = "picks" | "walk" | "customers" | "compare" | "map" | "report";
export type ListKind = "overall" | "concepts" | "shelves" | "concept";

/** What a person has chosen; the address of the page holds all of it. */
export interface State {
  view: View;
  /** A known user's id; with null it is `history` that counts. */
  user: string | null;
  history: string[];
  /** At most one for each knob. */
  moves: Move[];
  /** What lists must be like. */
  rules: Rules;
  /** The run that the moves and rules of a link were made with; null: the one being served. */
  run: string | null;
  /** Whose knobs are shown. */
  concept: number | null;
  list: ListKind;
  /** How many items a list has; null: the usual number. */
  n: number | null;
  walk: { item: string | null; dimension: number | null };
  /** The attribute that the map is coloured by; null: concepts. */
  by: string | null;
  /** The sides of a comparison, see compare/sides.js; "": the one chosen by default. */
  compare: { left: string; right: string };
}

/** A list to come back to, in this browser or in a file. */
export interface Saved {
  name: string;
  /** When, as ISO 8601. */
  saved: string;
  run: { id: string; name: string };
  /** Without what only this page's views need. */
  state: Omit<State, "view" | "run" | "walk" | "by" | "compare">;
  /** The items that a known customer had, in case another model does not know the customer. */
  items?: string[];
  /** The name of the group that the list is of. */
  concept_name?: string;
}

/** What is needed of an item to show it. */
export interface Shown {
  id: string;
  title?: string | null;
  concept?: number | null;
  concept_share?: number | null;
  second_concept?: number | null;
  second_share?: number | null;
  facts?: string[] | null;
  new?: boolean | null;
  placed?: string | null;
  isUnknown?: boolean;
}

/** A list to show; `moved` as the service says, where there are moves; `share`: of a shelf, in what is recommended. */
export interface List {
  concept: number | null;
  items: Scored[];
  moved: Moved | null;
  share?: number;
}

export interface App {
  card: Model;
  store: Store;
  live: Live;
  concept(k: number | null): Concept | null;
  label(k: number | null): string | null;
  isInHistory(id: string): boolean;
  addToHistory(id: string): void;
  removeFromHistory(id: string): void;
  /** Puts an item into the history, with a way back. */
  moreLike(id: string): void;
  openItem(id: string): void;
  walkFrom(id: string): void;
  refreshCard(): Promise<void>;
  toast(text: string, options?: { undo?: (() => unknown) | null; kind?: string }): void;
  announce(text: string): void;
}

/** A view that is loaded when it is opened. */
export interface Panel {
  element: HTMLElement;
  show(state: State): unknown;
  hide(): void;
}

export type Child = Node | string | number | false | null | undefined | Child[];

export interface Props {
  on?: Record<string, (event: any) => unknown>;
  style?: Record<string, string | number | null | undefined>;
  [name: string]: unknown;
}

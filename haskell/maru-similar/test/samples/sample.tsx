import { a } from "b";
interface Props { xs: number[]; label?: string }
export function Total({ xs, label }: Props) {
  const s: number = xs.reduce((m, x) => m + x, 0);
  const f = <T extends Props>(p: T): T => p;
  return (
    <section title="it's a total" {...f({ xs })}>
      {/* none */}
      <p>Don't count // this: {s > 0 ? <b>{s}</b> : "none"}</p>
      <>{xs.map((x) => <Row.Cell key={x} onClick={() => a(x)} />)}</>
    </section>
  );
}

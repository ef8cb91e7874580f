/* The order of search results: guides first, then pages that explain, then the reference. The object whose name was
   searched for is the first result, unless the name is an everyday word, such as `install`. */
var Scorer = {
  score: (result) => {
    const [page, title, , , score, , kind] = result;
    if (kind === "object") {
      const isWord = /^[a-z]+$/.test(title.split(".").pop());
      const isWholeName = score >= Scorer.objNameMatch + Scorer.objPrio[1];
      return isWholeName && !isWord ? score + 10 : score - 15;
    }
    if (/^(how_to|coming_from)\/|^(start|fields|faq)$/.test(page)) {
      return score + 10;
    }
    return /^(reference|numbers)/.test(page) ? score : score + 5;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};

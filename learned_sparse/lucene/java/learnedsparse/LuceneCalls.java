package learnedsparse;

import java.io.IOException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.lucene.analysis.Analyzer;
import org.apache.lucene.analysis.TokenStream;
import org.apache.lucene.analysis.tokenattributes.CharTermAttribute;
import org.apache.lucene.analysis.tokenattributes.OffsetAttribute;
import org.apache.lucene.document.BinaryDocValuesField;
import org.apache.lucene.document.Field;
import org.apache.lucene.document.FieldType;
import org.apache.lucene.document.StringField;
import org.apache.lucene.index.IndexReader;
import org.apache.lucene.index.IndexWriter;
import org.apache.lucene.index.MultiTerms;
import org.apache.lucene.index.PostingsEnum;
import org.apache.lucene.index.Term;
import org.apache.lucene.index.Terms;
import org.apache.lucene.index.TermsEnum;
import org.apache.lucene.search.BooleanClause.Occur;
import org.apache.lucene.search.BooleanQuery;
import org.apache.lucene.search.BoostQuery;
import org.apache.lucene.search.FieldDoc;
import org.apache.lucene.search.IndexSearcher;
import org.apache.lucene.search.Query;
import org.apache.lucene.search.ScoreDoc;
import org.apache.lucene.search.Sort;
import org.apache.lucene.search.SortField;
import org.apache.lucene.search.TermQuery;
import org.apache.lucene.search.TopDocs;
import org.apache.lucene.util.BytesRef;

/**
 * The loops over terms, hits and documents that run inside Java, each started by one call from Python.
 *
 * <p>A call from Python into Java takes microseconds and Python's lock. One call for each term of a query and for each of
 * 1,000 hits would take longer than the search. All methods are static: pyjnius keeps the receiver of an instance method
 * in an object that all Python threads share. No name is overloaded: pyjnius would compare all signatures at each call.
 *
 * <p>Fields are Anserini's: "id" (stored, indexed, and doc values for the order of ties) and "contents".
 *
 * <p>Compile with {@code javac --release 17 -cp ANSERINI_JAR LuceneCalls.java}; only classes of Lucene are used, which
 * are compiled for Java 11.
 */
public final class LuceneCalls {
  private static final String ID = "id";
  private static final String CONTENTS = "contents";
  private static final Sort BY_SCORE_THEN_ID =
      new Sort(SortField.FIELD_SCORE, new SortField(ID, SortField.Type.STRING_VAL));

  private static final String OUT_OF_MEMORY = "OutOfMemoryError";

  private LuceneCalls() {}

  /** The best k hits by sum of query impact times document impact; at least one term. See hits() for the result. */
  public static String searchImpacts(IndexSearcher searcher, String[] terms, float[] impacts, int k)
      throws IOException {
    return hits(searcher, impactQuery(terms, impacts).build(), k);
  }

  /** The best k hits for the terms that the analyzer makes of the text, each weighted by how often it occurs. */
  public static String searchText(IndexSearcher searcher, Analyzer analyzer, String text, int k) throws IOException {
    Map<String, Integer> counts = new HashMap<>();
    try (TokenStream tokens = analyzer.tokenStream(CONTENTS, text)) {
      CharTermAttribute term = tokens.addAttribute(CharTermAttribute.class);
      tokens.reset();
      while (tokens.incrementToken()) {
        counts.merge(term.toString(), 1, Integer::sum);
      }
      tokens.end();
    }
    String[] terms = counts.keySet().toArray(new String[0]);
    float[] weights = new float[terms.length];
    for (int i = 0; i < terms.length; i++) {
      weights[i] = counts.get(terms[i]);
    }
    return hits(searcher, impactQuery(terms, weights).build(), k);
  }

  /** For each token that the analyzer makes of the text a line with its start, its end (in code points) and the term. */
  public static String tokens(Analyzer analyzer, String text) throws IOException {
    StringBuilder lines = new StringBuilder();
    try (TokenStream tokens = analyzer.tokenStream(CONTENTS, text)) {
      CharTermAttribute term = tokens.addAttribute(CharTermAttribute.class);
      OffsetAttribute offsets = tokens.addAttribute(OffsetAttribute.class);
      tokens.reset();
      int before = 0; // in chars, which are two for a code point outside the basic plane
      int start = 0;
      while (tokens.incrementToken()) {
        start += text.codePointCount(before, offsets.startOffset());
        before = offsets.startOffset();
        int end = start + text.codePointCount(before, offsets.endOffset());
        lines.append(start).append('\t').append(end).append('\t').append(term).append('\n');
      }
      tokens.end();
    }
    return lines.toString();
  }

  /** The score of the document with this id; 0 if it has no term of the query or does not exist. */
  public static float score(IndexSearcher searcher, String[] terms, float[] impacts, String id) throws IOException {
    BooleanQuery.Builder query = impactQuery(terms, impacts);
    query.add(new TermQuery(new Term(ID, id)), Occur.FILTER); // does not change the score
    ScoreDoc[] hits = searcher.search(query.build(), 1).scoreDocs;
    return hits.length == 0 ? 0 : hits[0].score;
  }

  private static BooleanQuery.Builder impactQuery(String[] terms, float[] impacts) {
    allowClauses(terms.length + 1); // one more for the filter of score()
    BooleanQuery.Builder query = new BooleanQuery.Builder();
    for (int i = 0; i < terms.length; i++) {
      query.add(new BoostQuery(new TermQuery(new Term(CONTENTS, terms[i])), impacts[i]), Occur.SHOULD);
    }
    return query;
  }

  /** Let all queries of this process have at least so many terms; Lucene refuses more than 1,024 by default. */
  public static synchronized void allowClauses(int count) {
    if (count > IndexSearcher.getMaxClauseCount()) {
      IndexSearcher.setMaxClauseCount(count);
    }
  }

  /** For each hit a line with its score and a line with its id: highest score first, equal scores by ascending id. */
  private static String hits(IndexSearcher searcher, Query query, int k) throws IOException {
    TopDocs top = searcher.search(query, k, BY_SCORE_THEN_ID);
    StringBuilder lines = new StringBuilder();
    for (ScoreDoc hit : top.scoreDocs) {
      Object[] sortedBy = ((FieldDoc) hit).fields;
      // A double is printed with all its digits, a float only with as many as distinguish it from other floats.
      lines.append((double) (Float) sortedBy[0]).append('\n');
      lines.append(((BytesRef) sortedBy[1]).utf8ToString()).append('\n');
    }
    return lines.toString();
  }

  /**
   * For each document that exists a line with the position of its id in ids; for each of its postings a line with this
   * position, the impact and the term.
   */
  public static String postings(IndexReader reader, String[] ids) throws IOException {
    TreeMap<Integer, Integer> positions = new TreeMap<>(); // Lucene's document number to position in ids
    for (int i = 0; i < ids.length; i++) {
      PostingsEnum documents = MultiTerms.getTermPostingsEnum(reader, ID, new BytesRef(ids[i]), PostingsEnum.NONE);
      while (documents != null && documents.nextDoc() != PostingsEnum.NO_MORE_DOCS) {
        positions.put(documents.docID(), i);
      }
    }
    StringBuilder lines = new StringBuilder();
    positions.values().forEach(position -> lines.append(position).append('\n'));
    Terms terms = MultiTerms.getTerms(reader, CONTENTS);
    if (terms == null || positions.isEmpty()) {
      return lines.toString();
    }
    int[] documents = positions.keySet().stream().mapToInt(Integer::intValue).toArray();
    TermsEnum iterator = terms.iterator();
    PostingsEnum postings = null;
    for (BytesRef term = iterator.next(); term != null; term = iterator.next()) {
      postings = iterator.postings(postings, PostingsEnum.FREQS);
      for (int i = 0; i < documents.length && postings.docID() != PostingsEnum.NO_MORE_DOCS; i++) {
        if (postings.docID() < documents[i]) {
          postings.advance(documents[i]);
        }
        if (postings.docID() == documents[i]) {
          lines.append(positions.get(documents[i])).append('\t').append(postings.freq()).append('\t');
          lines.append(term.utf8ToString()).append('\n');
        }
      }
    }
    return lines.toString();
  }

  /** For each term of the index a line with its document frequency and the term. */
  public static String documentFrequencies(IndexReader reader) throws IOException {
    StringBuilder lines = new StringBuilder();
    Terms terms = MultiTerms.getTerms(reader, CONTENTS);
    if (terms != null) {
      TermsEnum iterator = terms.iterator();
      for (BytesRef term = iterator.next(); term != null; term = iterator.next()) {
        lines.append(iterator.docFreq()).append('\t').append(term.utf8ToString()).append('\n');
      }
    }
    return lines.toString();
  }

  /**
   * Index documents in their order; null, or why not.
   *
   * <p>An OutOfMemoryError must not reach pyjnius, which asks it for its stack and ends the process if there is no memory
   * for the stack either.
   */
  public static String add(IndexWriter writer, FieldType contentsType, String[] ids, String[] contents) {
    try {
      for (int i = 0; i < ids.length; i++) {
        writer.addDocument(
            List.of(
                new StringField(ID, ids[i], Field.Store.YES),
                new BinaryDocValuesField(ID, new BytesRef(ids[i])), // Anserini's searchers order ties by it
                new Field(CONTENTS, contents[i], contentsType)));
      }
      return null;
    } catch (Exception | OutOfMemoryError error) {
      return problem(writer, error);
    }
  }

  /** Merge everything into one segment, commit and close; or drop what is not committed. Null, or why not. */
  public static String close(IndexWriter writer, boolean keep) {
    try {
      if (keep) {
        writer.forceMerge(1);
        writer.commit();
        writer.close();
      } else {
        writer.rollback();
      }
      return null;
    } catch (Exception | OutOfMemoryError error) {
      return problem(writer, error);
    }
  }

  /** The error in words. The error that closed the writer matters more than a later call that finds it closed. */
  private static String problem(IndexWriter writer, Throwable error) {
    Throwable closedBy = writer.getTragicException();
    for (Throwable cause = closedBy == null ? error : closedBy; cause != null; cause = cause.getCause()) {
      if (cause instanceof OutOfMemoryError) {
        return OUT_OF_MEMORY;
      }
    }
    return closedBy == null ? String.valueOf(error.getMessage()) : "writer closed by " + closedBy;
  }
}

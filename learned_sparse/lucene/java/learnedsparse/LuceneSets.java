package learnedsparse;

import java.io.IOException;
import java.nio.file.Paths;
import org.apache.lucene.index.DirectoryReader;
import org.apache.lucene.index.IndexReader;
import org.apache.lucene.index.IndexWriter;
import org.apache.lucene.index.MultiReader;
import org.apache.lucene.store.Directory;
import org.apache.lucene.store.FSDirectory;

/**
 * Several indexes read as one, or merged into one; pyjnius cannot pass arrays of objects to overloaded methods of Lucene.
 *
 * <p>Compile with {@code javac --release 17 -cp ANSERINI_JAR LuceneSets.java}.
 */
public final class LuceneSets {
  private LuceneSets() {}

  /** One reader of all indexes; closing it closes them. */
  public static IndexReader open(String[] folders) throws IOException {
    IndexReader[] readers = new IndexReader[folders.length];
    try {
      for (int i = 0; i < folders.length; i++) {
        readers[i] = DirectoryReader.open(FSDirectory.open(Paths.get(folders[i])));
      }
      return readers.length == 1 ? readers[0] : new MultiReader(readers);
    } catch (IOException | RuntimeException error) {
      for (IndexReader reader : readers) {
        if (reader != null) {
          reader.close();
        }
      }
      throw error;
    }
  }

  /** Copy whole indexes in their order; null, or why not. An OutOfMemoryError must not reach pyjnius. */
  public static String addIndexes(IndexWriter writer, String[] folders) {
    try {
      Directory[] directories = new Directory[folders.length];
      for (int i = 0; i < folders.length; i++) {
        directories[i] = FSDirectory.open(Paths.get(folders[i]));
      }
      writer.addIndexes(directories);
      return null;
    } catch (OutOfMemoryError error) {
      return "OutOfMemoryError";
    } catch (IOException | RuntimeException error) {
      return error.toString();
    }
  }
}

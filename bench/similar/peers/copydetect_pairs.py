"""All pairs of a folder of files as left,right,mean,larger: copydetect_pairs.py FOLDER OUT (the defaults of its command)"""
import os
import sys

from copydetect import CopyDetector

folder, out = sys.argv[1:]
detector = CopyDetector(
    test_dirs=[folder], extensions=["java"], noise_t=25, guarantee_t=25, display_t=0, silent=True, autoopen=False
)
detector.run()
with open(out, "w", encoding="utf-8") as file:
    for row, left in enumerate(detector.test_files):
        for column, right in enumerate(detector.ref_files):
            if left < right:
                # A pair that was not compared has -1.
                shares = [max(0, share) for share in detector.similarity_matrix[row, column]]
                print(os.path.basename(left), os.path.basename(right), sum(shares) / 2, max(shares), sep=",", file=file)
